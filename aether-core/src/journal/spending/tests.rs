//! What calls, branches and children take of a budget, and give back.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::journal::event::{
    ChildReleased, ChildStarted, CommandCommitted, CommandEmitted, RaceDecided, StepRetried,
    ToolInvocationRefused,
};
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::Payload;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn command(place: &str) -> CommandId {
    CommandId::new(place, "call")
}

fn tokens(tokens: u64) -> Spend {
    Spend { calls: 1, tokens, cost_nanos: 0 }
}

fn committed(command: &CommandId, spent: Option<Spend>) -> Event {
    let (command, outcome) = (command.clone(), Outcome::Success);
    CommandCommitted { command, outcome, result: None, error: None, caught_up: false, spent }.into()
}

fn emitted(command: &CommandId, reserved: Reserved) -> Event {
    CommandEmitted { command: command.clone(), attempt: 0, input: None, reserved: Some(reserved) }.into()
}

/// Decides, and notes what is decided as the gate does.
fn reserve(spending: &mut Spending, levels: &[Level<'_>], command: &CommandId, need: Spend) -> Decision {
    spending.lose(command);
    let decision = spending.decide(levels, need, at(0));
    if let Decision::Granted { reserved, .. } = &decision {
        spending.reserve(command, Some(reserved), None, false);
    }
    decision
}

fn over(decision: Decision) -> OverBudget {
    match decision {
        Decision::Over(over) => over,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_call_did_not_take_comes_back_and_a_lost_one_took_all() {
    let budget = Budget::new().named("b").tokens(100);
    let levels = [Level { scope: "0", budget: &budget }];
    let (mut spending, one, other) = (Spending::default(), command("0.0"), command("0.1"));
    assert!(matches!(reserve(&mut spending, &levels, &one, tokens(60)), Decision::Granted { .. }));
    assert_eq!(reserve(&mut spending, &levels, &other, tokens(60)), Decision::Wait);
    assert!(spending.settle(&committed(&one, Some(tokens(10)))));
    assert!(matches!(reserve(&mut spending, &levels, &other, tokens(60)), Decision::Granted { .. }));
    // The process died: the same call is made again.
    let refused = over(reserve(&mut spending, &levels, &other, tokens(60)));
    assert_eq!((refused.spent, refused.reserved, refused.needed, refused.limit), (70, 0, Some(60), 100));
    assert!(matches!(reserve(&mut spending, &levels, &other, tokens(30)), Decision::Granted { .. }));
    assert!(!spending.settle(&committed(&one, None)), "it has no reservation any more");
}

#[test]
fn what_takes_nothing_of_a_kind_is_not_refused_for_it() {
    let budget = Budget::new().tokens(5);
    let levels = [Level { scope: "0", budget: &budget }];
    let mut spending = Spending::default();
    reserve(&mut spending, &levels, &command("0.0"), tokens(5));
    spending.settle(&committed(&command("0.0"), Some(tokens(9))));
    assert!(matches!(
        reserve(&mut spending, &levels, &command("0.1"), Spend::CALL),
        Decision::Granted { .. }
    ));
    assert_eq!(over(reserve(&mut spending, &levels, &command("0.2"), tokens(1))).spent, 9);
}

#[test]
fn the_time_of_a_budget_begins_with_its_first_call() {
    let budget = Budget::new().time(std::time::Duration::from_secs(10));
    let levels = [Level { scope: "0", budget: &budget }];
    let mut spending = Spending::default();
    let Decision::Granted { reserved, until } = spending.decide(&levels, Spend::CALL, at(100)) else {
        panic!()
    };
    assert_eq!((until, reserved.opens.len()), (Some(at(110)), 1));
    spending.apply(&emitted(&command("0.0"), reserved));
    let Decision::Granted { reserved, .. } = spending.decide(&levels, Spend::CALL, at(109)) else { panic!() };
    assert!(reserved.opens.is_empty(), "it is recorded once");
    let refused = over(spending.decide(&levels, Spend::CALL, at(112)));
    assert_eq!((refused.kind, refused.limit, refused.spent), (BudgetKind::Time, 10_000, 12_000));
    // A later version of the code gives more.
    let more = Budget::new().time(std::time::Duration::from_secs(60));
    let levels = [Level { scope: "0", budget: &more }];
    let Decision::Granted { reserved, until } = spending.decide(&levels, Spend::CALL, at(112)) else {
        panic!()
    };
    assert_eq!((reserved.opens[0].since, until), (at(100), Some(at(160))));
}

#[test]
fn a_branch_that_lost_a_race_spent_what_it_had_reserved() {
    let budget = Budget::new().tokens(100);
    let levels = [Level { scope: RUN, budget: &budget }];
    let mut spending = Spending::of(Some(&budget));
    reserve(&mut spending, &levels, &command("0.b0.0"), tokens(30));
    reserve(&mut spending, &levels, &command("0.b1.0"), tokens(50));
    let decided = RaceDecided { command: CommandId::new("0", "race"), winner: "0.b1".into() };
    assert!(spending.settle(&decided.into()));
    let used = &spending.uses()[0];
    assert_eq!((used.spent.tokens, used.reserved.tokens), (30, 50));
}

#[test]
fn a_child_that_nobody_waits_for_holds_what_it_was_granted_until_it_is_let_go() {
    let budget = Budget::new().tokens(100).calls(10);
    let levels = [Level { scope: RUN, budget: &budget }];
    let mut spending = Spending::of(Some(&budget));
    let (start, child) = (command("0"), RunId::new("child").unwrap());
    let left = spending.left(&levels, Some(&Budget::new().tokens(60)), at(0));
    assert_eq!((left.tokens, left.calls), (Some(60), Some(10)));
    let Decision::Granted { reserved, .. } =
        spending.decide(&levels, Spend { calls: 10, tokens: 60, cost_nanos: 0 }, at(0))
    else {
        panic!()
    };
    let started = ChildStarted {
        command: start.clone(),
        child: child.clone(),
        unawaited: true,
        detached: false,
        granted: Some(left),
        reserved: Some(reserved),
    };
    spending.apply(&started.into());
    assert!(!spending.settle(&committed(&start, None)), "it goes on");
    assert!(spending.has_granted(&child));
    // Nothing that is under way gives it back, so the call does not wait.
    assert_eq!(over(spending.decide(&levels, tokens(50), at(0))).kind, BudgetKind::Tokens);
    let spent = Some(Spend { calls: 2, tokens: 5, cost_nanos: 0 });
    let released = ChildReleased { command: command("1"), child, spent };
    assert!(spending.settle(&released.into()));
    assert_eq!(spending.total(), Spend { calls: 2, tokens: 5, cost_nanos: 0 });
}

/// What happens to one of a few calls.
#[derive(Clone, Debug)]
enum Act {
    /// An attempt that may take so much asks; one that is open was lost.
    Ask(usize, u64),
    /// It came back and took this part of it, in percent; `None` says that nobody knows.
    End(usize, Option<u64>),
    /// It failed and took this part.
    Fail(usize, u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..4_usize, 1..60_u64).prop_map(|(call, need)| Act::Ask(call, need)),
        2 => (0..4_usize, proptest::option::of(0..=100_u64)).prop_map(|(call, part)| Act::End(call, part)),
        1 => (0..4_usize, 0..=100_u64).prop_map(|(call, part)| Act::Fail(call, part)),
    ]
}

/// Two scopes, one in the other; calls 2 and 3 are in both.
const PLACES: [&str; 4] = ["0", "1", "2.0", "2.1"];

#[derive(Default)]
struct Model {
    spent: [u64; 2],
    open: BTreeMap<usize, u64>,
}

impl Model {
    fn counts(call: usize, level: usize) -> bool {
        level == 0 || call >= 2
    }

    fn end(&mut self, call: usize, spent: Option<u64>) {
        if let Some(reserved) = self.open.remove(&call) {
            for level in [0, 1] {
                self.spent[level] += if Self::counts(call, level) { spent.unwrap_or(reserved) } else { 0 };
            }
        }
    }

    fn open_at(&self, level: usize) -> u64 {
        self.open.iter().filter(|(call, _)| Self::counts(**call, level)).map(|(_, open)| open).sum()
    }
}

proptest! {
    #[test]
    fn no_budget_is_exceeded_and_the_journal_tells_the_same(
        limits in (20..200_u64, 10..120_u64),
        acts in proptest::collection::vec(act(), 1..80),
    ) {
        let (outer, inner) = (Budget::new().tokens(limits.0), Budget::new().tokens(limits.1));
        let limit = [limits.0, limits.1];
        let (mut spending, mut model) = (Spending::of(Some(&outer)), Model::default());
        let mut journal: Vec<Event> = Vec::new();
        for act in acts {
            match act {
                Act::Ask(call, need) => {
                    let mut levels = vec![Level { scope: RUN, budget: &outer }];
                    levels.extend((call >= 2).then_some(Level { scope: "2", budget: &inner }));
                    model.end(call, None);
                    let fits = |open: bool| (0..levels.len()).all(|level| {
                        let open = if open { model.open_at(level) } else { 0 };
                        model.spent[level] + open + need <= limit[level]
                    });
                    let expected = (fits(true), fits(false));
                    let command = command(PLACES[call]);
                    match reserve(&mut spending, &levels, &command, tokens(need)) {
                        Decision::Granted { reserved, .. } => {
                            prop_assert_eq!(expected, (true, true));
                            journal.push(emitted(&command, reserved));
                            model.open.insert(call, need);
                        }
                        Decision::Wait => prop_assert_eq!(expected, (false, true)),
                        Decision::Over(_) => {
                            prop_assert_eq!(expected, (false, false));
                            journal.push(committed(&command, None));
                        }
                    }
                }
                // Only what was granted comes back.
                Act::End(call, _) | Act::Fail(call, _) if !model.open.contains_key(&call) => {}
                Act::End(call, part) => {
                    let reserved = model.open.get(&call).copied().unwrap_or(0);
                    let spent = part.map(|part| reserved * part / 100);
                    model.end(call, spent);
                    let ended = committed(&command(PLACES[call]), spent.map(tokens));
                    spending.settle(&ended);
                    journal.push(ended);
                }
                Act::Fail(call, part) => {
                    let spent = model.open.get(&call).copied().unwrap_or(0) * part / 100;
                    model.end(call, Some(spent));
                    let retried = StepRetried {
                        command: command(PLACES[call]),
                        attempt: 0,
                        error: Payload::null(),
                        due: at(0),
                        spent_ms: None,
                        unclassified: false,
                        spent: Some(tokens(spent)),
                    };
                    spending.settle(&retried.clone().into());
                    journal.push(retried.into());
                }
            }
            for used in spending.uses() {
                let level = usize::from(used.scope != RUN);
                prop_assert_eq!(used.spent.tokens, model.spent[level]);
                prop_assert_eq!(used.reserved.tokens, model.open_at(level));
                prop_assert!(used.spent.tokens + used.reserved.tokens <= limit[level]);
            }
        }
        // After a crash: what is open then is lost when its call is made again, which a waiting call has not said yet.
        let mut folded = Spending::of(Some(&outer));
        journal.iter().for_each(|event| folded.apply(event));
        prop_assert_eq!(folded.total(), spending.total());
    }
}

/// The second that a budget is recorded to have begun with, as a process finds it that reads these events.
fn since(events: &[Event]) -> Option<Timestamp> {
    Spending::fold(events).uses().into_iter().find(|used| used.scope == "0").and_then(|used| used.since)
}

#[test]
fn a_budget_begins_with_its_first_call_also_where_that_call_is_in_no_event() {
    let budget = Budget::new().time(std::time::Duration::from_secs(600));
    let levels = [Level { scope: "0", budget: &budget }];
    let granted = |spending: &mut Spending, place: &str, second: i64| {
        let Decision::Granted { reserved, .. } = spending.decide(&levels, Spend::CALL, at(second)) else {
            panic!("not granted")
        };
        spending.reserve(&command(place), Some(&reserved), None, false);
        reserved
    };
    let mut spending = Spending::default();
    let _in_no_event = granted(&mut spending, "0.0", 10);
    spending.settle(&committed(&command("0.0"), Some(Spend::default())));
    let second = emitted(&command("0.1"), granted(&mut spending, "0.1", 20));
    assert_eq!(since(std::slice::from_ref(&second)), Some(at(10)));
    // It is said until an event says it.
    assert_eq!(granted(&mut spending, "0.2", 30).opens.len(), 1);
    spending.record(&second);
    assert_eq!(granted(&mut spending, "0.3", 40).opens, []);
}

#[test]
fn a_budget_begins_with_a_call_that_the_ledger_refuses() {
    let budget = Budget::new().time(std::time::Duration::from_secs(600));
    let levels = [Level { scope: "0", budget: &budget }];
    let mut spending = Spending::default();
    let Decision::Granted { reserved, .. } = reserve(&mut spending, &levels, &command("0.0"), Spend::CALL)
    else {
        panic!("not granted")
    };
    let refused = ToolInvocationRefused {
        command: command("0.0"),
        invocation: crate::vocabulary::id::InvocationId::new(&command("0.0"), 0),
        key: crate::vocabulary::id::IdempotencyKey::new(&RunId::new("r").unwrap(), &command("0.0"), 0),
        opens: reserved.opens,
    };
    let journal = [refused.into(), committed(&command("0.0"), Some(Spend::default()))];
    assert_eq!(since(&journal), Some(at(0)));
    assert_eq!(Spending::fold(&journal).uses()[0].spent, Spend::default());
    // Ten minutes later no call begins.
    let later = Spending::fold(&journal).decide(&levels, Spend::CALL, at(600));
    assert_eq!(over(later).kind, BudgetKind::Time);
}
