//! The rules of the replay matcher, each against a small journal.

use std::sync::Arc;
use std::sync::atomic;
use std::task::Wake;

use jiff::Timestamp;

use super::*;
use crate::journal::event::{
    AnswerRefused, ApprovalDecided, ApprovalRequested, CallbackAwaited, ChildStarted, CommandCommitted,
    CommandEmitted, HttpRecorded, InvocationDecision, InvocationResolved, LimitAwaited, NodeFinished,
    NodeStarted, PlanGenerated, RaceDecided, RandomRecorded, RunRequeued, RunWaiting, StateChanged,
    StepCommitted, StepRetried, TimeRecorded, TimerFired, TimerScheduled, ToolInvocationFinished,
    ToolInvocationRefused, ToolInvocationStarted, TransactionFinished, UuidRecorded, WaitCompleted,
    WaitStarted,
};
use crate::sched::AtomicUsize;
use crate::vocabulary::contract::Constraints;
use crate::vocabulary::id::{IdempotencyKey, InvocationId, RunId};
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::{Digest, Payload};

fn command(text: &str) -> CommandId {
    text.to_owned().into()
}

fn json(text: &str) -> Payload {
    Payload::from_text(text.to_owned()).unwrap()
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key(id: &str, attempt: u32) -> IdempotencyKey {
    IdempotencyKey::new(&RunId::new("ticket-42").unwrap(), &command(id), attempt)
}

fn started(id: &str, class: EffectClass) -> Event {
    NodeStarted {
        path: None,
        command: command(id),
        class,
        digest: Digest::of(&json("[1]")).unwrap(),
        input: Some(json("[1]")),
        site: Some("triage.rs:7".into()),
        constraints: Constraints::default(),
    }
    .into()
}

fn committed(id: &str, result: Option<&str>, error: Option<&str>) -> Event {
    CommandCommitted {
        command: command(id),
        outcome: Outcome::Success,
        result: result.map(json),
        error: error.map(json),
        caught_up: false,
        spent: None,
    }
    .into()
}

fn intent(id: &str, attempt: u32) -> Event {
    ToolInvocationStarted {
        invocation: InvocationId::new(&command(id), attempt),
        key: key(id, attempt),
        command: command(id),
        tool: "send".into(),
        attempt,
        reserved: None,
    }
    .into()
}

fn returned(id: &str, result: Option<&str>) -> Event {
    ToolInvocationFinished {
        invocation: InvocationId::new(&command(id), 0),
        command: command(id),
        outcome: Outcome::SideEffectCommitted,
        result: result.map(json),
        error: None,
        caught_up: false,
    }
    .into()
}

fn refused(id: &str) -> Event {
    ToolInvocationRefused {
        invocation: InvocationId::new(&command(id), 0),
        key: key(id, 0),
        command: command(id),
        opens: Vec::new(),
    }
    .into()
}

fn resolved(id: &str, decision: InvocationDecision) -> Event {
    InvocationResolved {
        invocation: InvocationId::new(&command(id), 0),
        command: command(id),
        decision,
        actor: "ops".into(),
        resend: None,
    }
    .into()
}

fn retried(id: &str, attempt: u32) -> Event {
    StepRetried {
        command: command(id),
        attempt,
        error: json("\"no\""),
        due: second(5),
        spent_ms: None,
        unclassified: false,
        spent: None,
    }
    .into()
}

fn exchange(id: &str, response: &str) -> Event {
    HttpRecorded { command: command(id), exchange: 0, request: json("{}"), response: json(response) }.into()
}

fn transacted(id: &str, result: Option<&str>, error: Option<&str>) -> Event {
    TransactionFinished {
        command: command(id),
        attempt: 0,
        outcome: Outcome::SideEffectCommitted,
        result: result.map(json),
        error: error.map(json),
        changed: Vec::new(),
        retry_after_ms: None,
    }
    .into()
}

fn time(id: &str, at: i64) -> Event {
    TimeRecorded { command: command(id), value: second(at) }.into()
}

fn race(id: &str, winner: &str) -> Event {
    RaceDecided { command: command(id), winner: winner.into() }.into()
}

/// What a journal holds at `place`.
fn record(events: impl IntoIterator<Item = Event>, place: &str) -> CommandRecord {
    History::fold(events).request(place).expect("something is recorded").clone()
}

fn value(text: &str) -> Option<RecordedResult> {
    Some(RecordedResult::Step(Ok(json(text))))
}

/// Counts how often it was woken.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, atomic::Ordering::SeqCst);
    }
}

fn alarm() -> (Arc<Alarm>, Waker) {
    let alarm = Arc::new(Alarm::default());
    (Arc::clone(&alarm), alarm.into())
}

fn rings(alarm: &Alarm) -> usize {
    alarm.0.load(atomic::Ordering::SeqCst)
}

/// The places whose answers come next, in the order in which they are handed out.
fn order(history: &mut History, places: &[&str]) -> Vec<String> {
    let mut given = Vec::new();
    while !history.is_exhausted() {
        let (before, _) = history.progress();
        for place in places {
            if history.take_delivery(place, Waker::noop()).is_some() {
                given.push((*place).to_owned());
            }
        }
        assert_ne!(history.progress().0, before, "nobody asks for what is next");
    }
    given
}

// The fold.

#[test]
fn a_step_is_known_by_its_class_arguments_and_place() {
    let begun = record([started("0:look", EffectClass::Read)], "0");
    assert_eq!(begun.command, command("0:look"));
    assert_eq!((begun.class, begun.digest), (Some(EffectClass::Read), Digest::of(&json("[1]")).ok()));
    assert_eq!((begun.input, begun.site.as_deref()), (Some(json("[1]")), Some("triage.rs:7")));
    assert_eq!((begun.started, begun.finished, begun.committed, begun.answer), (true, false, false, None));
}

#[test]
fn a_step_that_is_complete_has_every_mark() {
    let done = record(
        [
            started("0:look", EffectClass::Read),
            committed("0:look", Some("7"), None),
            NodeFinished { command: command("0:look") }.into(),
            StepCommitted { command: command("0:look"), step: "look".into(), key: None }.into(),
        ],
        "0",
    );
    assert_eq!((done.finished, done.committed), (true, true));
    assert_eq!((done.outcome, done.answer), (Some(Outcome::Success), value("7")));
}

#[test]
fn a_prompt_is_the_input_where_the_start_does_not_hold_it() {
    let emitted = |input: &str| {
        CommandEmitted { command: command("0:ask"), attempt: 0, input: Some(json(input)), reserved: None }
            .into()
    };
    assert_eq!(record([emitted("\"a\""), emitted("\"b\"")], "0").input, Some(json("\"a\"")));
}

#[test]
fn an_error_goes_before_a_value_and_a_commit_without_either_is_null() {
    let failed = record([committed("0:look", Some("7"), Some("\"no\""))], "0");
    assert_eq!(failed.answer, Some(RecordedResult::Step(Err(json("\"no\"")))));
    assert_eq!(record([committed("0:look", None, None)], "0").answer, value("null"));
}

#[test]
fn a_commit_takes_a_value_that_stands_elsewhere_in_the_journal() {
    let invoked = [intent("0:send", 0), returned("0:send", Some("1")), committed("0:send", None, None)];
    assert_eq!(record(invoked, "0").answer, value("1"));
    let transaction = [transacted("0:book", Some("2"), None), committed("0:book", None, None)];
    assert_eq!(record(transaction, "0").answer, value("2"));
    let rolled_back = [transacted("0:book", None, Some("\"full\"")), committed("0:book", None, None)];
    assert_eq!(record(rolled_back, "0").answer, Some(RecordedResult::Step(Err(json("\"full\"")))));
    let fetched = [exchange("0:get", "0"), exchange("0:get", "3"), committed("0:get", None, None)];
    assert_eq!(record(fetched, "0").answer, value("3"));
    let posted = [intent("0:post", 0), exchange("0:post", "4"), returned("0:post", None)];
    let invocation = record(posted, "0").invocation.unwrap();
    assert_eq!(invocation.finished, Some((Outcome::SideEffectCommitted, Ok(json("4")))));
    let own = [returned("0:send", Some("5")), committed("0:send", Some("6"), None)];
    assert_eq!(record(own, "0").answer, value("6"));
}

#[test]
fn a_definite_failure_ends_the_attempt_and_counts_it() {
    let retrying =
        record([intent("0:send", 0), transacted("0:send", Some("1"), None), retried("0:send", 2)], "0");
    assert_eq!((retrying.failed_attempts, retrying.details().retry_due), (3, Some(second(5))));
    assert_eq!((&retrying.invocation, &retrying.details().transaction), (&None, &None));
}

#[test]
fn an_invocation_carries_its_name_key_and_attempt() {
    let invocation = record([intent("0:send", 2)], "0").invocation.unwrap();
    let expected = Invocation {
        id: InvocationId::new(&command("0:send"), 2),
        key: key("0:send", 2),
        attempt: 2,
        finished: None,
        decision: None,
        resend: None,
        refused: false,
    };
    assert_eq!(*invocation, expected);
    let refused = record([retried("0:send", 1), refused("0:send")], "0").invocation.unwrap();
    assert_eq!((refused.refused, refused.attempt), (true, 2));
}

#[test]
fn only_a_denial_ends_an_invocation_of_unknown_outcome() {
    let denied = record([intent("0:send", 3), resolved("0:send", InvocationDecision::DidNotHappen)], "0");
    assert_eq!((denied.invocation, denied.failed_attempts), (None, 4));
    let unseen = record([resolved("0:send", InvocationDecision::DidNotHappen)], "0");
    assert_eq!(unseen.failed_attempts, 1);
    for decision in [
        InvocationDecision::Happened,
        InvocationDecision::InDoubt,
        InvocationDecision::Retry,
        InvocationDecision::Ask,
    ] {
        let kept = record([intent("0:send", 3), resolved("0:send", decision)], "0");
        assert_eq!((kept.invocation.unwrap().decision, kept.failed_attempts), (Some(decision), 0));
    }
}

/// As a build wrote it that made another attempt when a call that it had made again failed.
#[test]
fn an_attempt_behind_a_call_that_was_made_again_is_the_newest() {
    let again = resolved("0:send", InvocationDecision::Retry);
    let known = record([intent("0:send", 0), again, retried("0:send", 0), intent("0:send", 1)], "0");
    let invocation = known.invocation.unwrap();
    assert_eq!((invocation.attempt, invocation.decision, invocation.resend), (1, None, None));
    assert_eq!((invocation.key, known.failed_attempts), (key("0:send", 1), 1));
}

#[test]
fn what_a_command_waits_for_is_known() {
    let timer =
        record([TimerScheduled { command: command("0:sleep"), due: second(9), site: None }.into()], "0");
    assert_eq!((timer.class, timer.details().due), (Some(EffectClass::Time), Some(second(9))));
    let until = Some(second(8));
    let wait = WaitStarted { command: command("0:signal"), name: "go".into(), until, site: None };
    assert_eq!(record([wait.into()], "0").details().due, until);
    let child = RunId::new("ticket-42.1").unwrap();
    let begun = ChildStarted {
        command: command("0:child"),
        child: child.clone(),
        unawaited: false,
        detached: false,
        granted: None,
        reserved: None,
    };
    assert_eq!(record([begun.into()], "0").details().child.clone(), Some(child));
}

#[test]
fn a_decision_belongs_to_the_request_before_it() {
    let id = || command("0:refund");
    let asks = || {
        ApprovalRequested {
            command: id(),
            request: json("{}"),
            until: Some(second(9)),
            name: None,
            site: None,
            limit_ms: Some(9_000),
        }
        .into()
    };
    let says =
        || ApprovalDecided { command: id(), decision: json("\"approve\""), actor: "ada".into() }.into();
    let decided = Some((json("\"approve\""), "ada".to_owned()));
    assert_eq!(
        record([asks(), says()], "0").details().asked,
        Some(Asked { until: Some(second(9)), limit_ms: Some(9_000), decided, shown: None, name: None })
    );
    assert_eq!(record([says()], "0").details().asked, None);
}

#[test]
fn a_refused_answer_and_another_callback_begin_a_round() {
    let id = || command("0:pay");
    let no = || AnswerRefused { command: id(), reason: "no number".into(), actor: "ada".into() }.into();
    let waits = |attempt| {
        let invocation = InvocationId::new(&id(), attempt);
        CallbackAwaited { command: id(), invocation, until: Some(second(9)) }.into()
    };
    assert_eq!(record([no(), no()], "0").details().round, 2);
    let mut first = record([waits(0)], "0");
    assert_eq!((first.details().round, first.take_details().callback.unwrap().0.as_str()), (0, "0:pay#0"));
    let mut third = record([waits(0), waits(1), waits(2)], "0");
    assert_eq!((third.details().round, third.take_details().callback.unwrap().0.as_str()), (2, "0:pay#2"));
}

#[test]
fn every_recorded_effect_is_an_answer_of_its_class() {
    let id = || command("0:effect");
    let uuid = uuid::Uuid::from_u128(7);
    let cases: [(Event, RecordedResult, Option<EffectClass>); 7] = [
        (time("0:effect", 3), RecordedResult::Time(second(3)), Some(EffectClass::Time)),
        (TimerFired { command: id() }.into(), RecordedResult::Timer, Some(EffectClass::Time)),
        (
            UuidRecorded { command: id(), value: uuid }.into(),
            RecordedResult::Uuid(uuid),
            Some(EffectClass::Uuid),
        ),
        (
            RandomRecorded { command: id(), value: json("9") }.into(),
            RecordedResult::Random(json("9")),
            Some(EffectClass::Random),
        ),
        (
            WaitCompleted { command: id(), value: None, limit_ms: Some(7) }.into(),
            RecordedResult::Wait(Err(Expired { limit_ms: Some(7) })),
            Some(EffectClass::Human),
        ),
        (race("0:effect", "0.b1"), RecordedResult::Race("0.b1".into()), None),
        (
            PlanGenerated { command: id(), plan: json("[]") }.into(),
            RecordedResult::Step(Ok(json("[]"))),
            None,
        ),
    ];
    for (event, answer, class) in cases {
        let kind = event.kind();
        let known = record([event], "0");
        assert_eq!((known.answer, known.class), (Some(answer), class), "{kind}");
    }
}

#[test]
fn the_class_that_was_requested_is_kept_and_the_first_answer_counts() {
    let mut history =
        History::fold([started("0:now", EffectClass::Human), time("0:now", 1), time("0:now", 2)]);
    assert_eq!(history.progress(), (0, 1));
    let known = history.request("0").unwrap();
    assert_eq!(
        (known.class, &known.answer),
        (Some(EffectClass::Human), &Some(RecordedResult::Time(second(1))))
    );
}

#[test]
fn events_of_the_run_itself_are_no_commands() {
    let requeued = RunRequeued { worker: "w".to_owned().into(), reason: "crash".into() };
    let mut history = History::fold([requeued.into(), Event::Unknown { kind: "from_later".into() }]);
    assert!(history.is_exhausted());
    assert!(history.leftover().is_none());
}

#[test]
fn changed_resources_are_folded_too() {
    let change = StateChanged {
        command: command("0:write"),
        resource: "file".into(),
        id: "a.txt".into(),
        operation: "write".into(),
        version: None,
        etag: None,
        external_ref: None,
    };
    let history = History::fold([change.clone().into()]);
    let standing = history.resources().left_by(&command("0:write"));
    assert_eq!(standing.iter().map(|s| &s.change).collect::<Vec<_>>(), [&change]);
}

// What a decided race and a recorded plan leave.

#[test]
fn of_a_decided_race_only_the_winner_is_replayed() {
    let mut history = History::fold([
        time("0.b0.0:now", 1),
        time("0.b1.0:now", 2),
        time("0.b10.0:now", 3),
        time("01.b0.0:now", 4),
        race("0:race", "0.b1"),
        time("1:now", 5),
    ]);
    assert!(history.request("0.b0.0").is_none() && history.request("0.b10.0").is_none());
    assert_eq!(order(&mut history, &["1", "0", "01.b0.0", "0.b1.0"]), ["0.b1.0", "01.b0.0", "0", "1"]);
}

#[test]
fn what_was_asked_for_inside_a_recorded_plan_is_not_replayed() {
    let plan = PlanGenerated { command: command("0:plan"), plan: json("[]") };
    let mut history = History::fold([time("0.0:now", 1), plan.into(), time("1:now", 2)]);
    assert!(history.request("0.0").is_none());
    assert_eq!(order(&mut history, &["1", "0"]), ["0", "1"]);
}

// Handing out.

#[test]
fn answers_are_handed_out_once_in_the_order_of_the_first_delivery() {
    let mut history = History::fold([time("1:now", 1), time("0:now", 2), time("2:now", 3)]);
    assert_eq!((history.progress(), history.is_exhausted()), ((0, 3), false));
    assert!(history.take_delivery("0", Waker::noop()).is_none());
    let first = history.take_delivery("1", Waker::noop()).unwrap();
    assert_eq!(first.answer, Some(RecordedResult::Time(second(1))));
    assert_eq!((history.progress(), history.is_exhausted()), ((1, 3), false));
    assert!(history.take_delivery("1", Waker::noop()).is_none());
    assert_eq!(order(&mut history, &["2", "0"]), ["0", "2"]);
    assert_eq!((history.progress(), history.is_exhausted()), ((3, 3), true));
    assert!(history.take_delivery("3", Waker::noop()).is_none());
}

#[test]
fn whoever_waits_for_the_next_answer_is_woken_and_nobody_else() {
    let mut history = History::fold([time("0:now", 1), time("1:now", 2), time("2:now", 3)]);
    let (one, waker_of_one) = alarm();
    let (two, waker_of_two) = alarm();
    assert!(history.take_delivery("1", &waker_of_one).is_none());
    assert!(!history.is_due("2", &waker_of_two));
    assert!(history.is_due("0", Waker::noop()), "to look is not to take");
    assert!(history.take_delivery("0", Waker::noop()).is_some());
    assert_eq!((rings(&one), rings(&two)), (1, 0));
    assert!(history.take_delivery("1", &waker_of_one).is_some());
    assert_eq!((rings(&one), rings(&two)), (1, 1));
    assert!(history.is_due("2", &waker_of_two) && !history.is_due("1", &waker_of_one));
}

#[test]
fn live_effects_wait_until_every_recorded_answer_is_handed_out() {
    let mut history = History::fold([time("0:now", 1), time("1:now", 2)]);
    let (one, waker_of_one) = alarm();
    let (stale, former_waker_of_two) = alarm();
    let (two, waker_of_two) = alarm();
    assert_eq!(history.frontier_request(), None);
    assert!(!history.pass_frontier(&command("2:send"), &waker_of_one));
    assert!(!history.pass_frontier(&command("3:send"), &former_waker_of_two));
    assert!(!history.pass_frontier(&command("3:send"), &waker_of_two));
    assert_eq!(history.frontier_request(), Some(&command("2:send")));
    assert!(history.take_delivery("0", Waker::noop()).is_some());
    assert_eq!((rings(&one), rings(&two)), (0, 0));
    assert!(history.take_delivery("1", Waker::noop()).is_some());
    assert!(history.is_exhausted() && !history.is_proven());
    assert!(!history.pass_frontier(&command("2:send"), &waker_of_one), "nobody saw yet that all of it fits");
    assert_eq!((rings(&one), rings(&two)), (0, 0));
    history.prove();
    assert_eq!((rings(&one), rings(&stale), rings(&two)), (1, 0, 1), "the newest waker of each");
    assert!(history.pass_frontier(&command("2:send"), &waker_of_one));
    assert_eq!(history.frontier_request(), None);
    assert!(History::default().pass_frontier(&command("0:send"), Waker::noop()));
}

// What is told when replay cannot go on.

#[test]
fn an_answer_that_nobody_asks_for_is_where_replay_is_stuck() {
    let mut history = History::fold([time("0:now", 1), time("1:now", 2)]);
    assert_eq!(history.stuck_at().unwrap().command, command("0:now"));
    assert!(!history.is_due("1", Waker::noop()));
    assert_eq!(history.leftover().unwrap().command, command("0:now"));
    assert!(history.is_due("0", Waker::noop()));
    assert!(history.stuck_at().is_none());
    assert_eq!(order(&mut history, &["0", "1"]), ["0", "1"]);
    assert!(history.stuck_at().is_none());
}

#[test]
fn a_step_that_was_begun_and_never_asked_for_is_left_over() {
    let mut history =
        History::fold([started("0:look", EffectClass::Read), started("1:look", EffectClass::Read)]);
    assert_eq!(history.request("0").unwrap().command, command("0:look"));
    assert!(history.request("7").is_none());
    assert_eq!(history.leftover().unwrap().command, command("1:look"));
    assert!(history.request("1").is_some());
    assert!(history.leftover().is_none());
}

// Environment-changing calls whose end is not known.

#[test]
fn unsettled_is_what_was_started_and_has_no_known_end() {
    let history = History::fold([
        intent("0:open", 0),
        intent("1:returned", 0),
        returned("1:returned", Some("1")),
        refused("2:refused"),
        intent("3:answered", 0),
        committed("3:answered", None, Some("\"in doubt\"")),
        started("4:look", EffectClass::Read),
        intent("5:own", 0),
    ]);
    let own = command("5:own");
    let open: Vec<_> = history.unsettled(&own).collect();
    assert_eq!(open, [&command("0:open")]);
}

#[test]
fn of_lost_branches_only_what_was_asked_for_is_kept() {
    let mut history = History::fold([
        intent("0.b1.3:c", 0),
        intent("0.b1.2:b", 0),
        intent("0.b0.0:a", 0),
        intent("0.b0.1:returned", 0),
        returned("0.b0.1:returned", None),
        refused("0.b0.2:refused"),
        intent("0.b0.3:sent_again", 0),
        resolved("0.b0.3:sent_again", InvocationDecision::Retry),
        intent("0.b0.4:given_up", 0),
        resolved("0.b0.4:given_up", InvocationDecision::InDoubt),
        started("0.b0.5:look", EffectClass::Read),
        intent("0.b0.6:asked_for", 0),
        intent("0.b2.0:winner", 0),
        intent("1:after", 0),
    ]);
    assert!(history.request("0.b0.6").is_some());
    history.forget(&["0.b0".into(), "0.b1".into()]);
    for gone in ["0.b0.0", "0.b0.1", "0.b0.5", "0.b1.3"] {
        assert!(history.request(gone).is_none(), "{gone}");
    }
    for kept in ["0.b0.6", "0.b2.0", "1"] {
        assert!(history.request(kept).is_some(), "{kept}");
    }
}

#[test]
fn code_counts_as_replayed_for_as_long_as_the_journal_shows_that_it_ran() {
    let waiting = || -> Event { RunWaiting { until: None, on: vec![command("1:sleep")], more: 0 }.into() };
    let timer =
        |id: &str| -> Event { TimerScheduled { command: command(id), due: second(9), site: None }.into() };
    let waker = Waker::noop();
    let mut history = History::fold([committed("0:look", Some("1"), None), timer("1.b0.0:sleep")]);
    assert!(!history.is_empty());
    let replays = |history: &History| ["", "1", "1.b0", "1.b1"].map(|scope| history.replays(scope));
    assert_eq!(replays(&history), [true; 4], "an answer is left");
    history.request("0");
    assert!(history.take_delivery("0", waker).is_some());
    assert_eq!(replays(&history), [true, true, true, false], "a command below was begun");
    history.request("1.b0.0");
    history.request("1.b0.0");
    assert_eq!(replays(&history), [false; 4], "all of it was asked for");

    let mut history = History::fold([timer("1.b0.0:sleep"), waiting()]);
    assert_eq!(replays(&history), [true; 4]);
    history.request("1.b0.0");
    assert_eq!(replays(&history), [true; 4], "all code up to the suspension ran");
    history.proceed();
    assert_eq!(replays(&history), [false; 4], "something new was recorded");

    let mut history = History::fold([waiting(), timer("1.b0.0:sleep"), timer("1.b1.0:sleep")]);
    assert_eq!(replays(&history), [true; 4]);
    history.request("1.b0.0");
    history.forget(&["1.b1".into()]);
    assert_eq!(replays(&history), [false; 4], "the branch that lost is not waited for");
    assert!(History::fold([]).is_empty());
}

// Records of complete commands, which are closed until somebody asks for them.

/// A step from its start to its end.
fn complete(id: &str, result: &str) -> Vec<Event> {
    let command = command(id);
    vec![
        started(id, EffectClass::Tool),
        intent(id, 0),
        returned(id, Some(result)),
        committed(id, None, None),
        NodeFinished { command: command.clone() }.into(),
        StepCommitted { key: Some(key(id, 0)), step: "send".into(), command }.into(),
    ]
}

#[test]
fn a_complete_command_is_closed_until_it_is_asked_for() {
    let events = (0..50).flat_map(|number| complete(&format!("{number}:send"), &number.to_string()));
    let mut history = History::fold(events);
    assert_eq!(history.commands.open().count(), 0);
    assert_eq!((history.progress(), history.items_of("0")), ((0, 50), 0));
    let asked = history.request("7").expect("it is recorded").clone();
    assert_eq!((&asked.answer, asked.committed), (&value("7"), true));
    assert_eq!(
        asked.invocation.as_deref(),
        Some(&Invocation::new(InvocationId::new(&asked.command, 0), key("7:send", 0), 0, false))
    );
    assert_eq!(history.commands.open().count(), 1);
    let places: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    let places: Vec<_> = places.iter().map(String::as_str).collect();
    assert_eq!(order(&mut history, &places), places);
    assert!(history.commands.is_empty());
}

#[test]
fn an_event_behind_the_end_of_a_command_is_taken_in() {
    let of_error = [started("0:send", EffectClass::Read), committed("0:send", None, Some("\"no\""))];
    let finished: Event = NodeFinished { command: command("0:send") }.into();
    let late: Event = resolved("0:send", InvocationDecision::Happened);
    let known = record(of_error.into_iter().chain([finished, intent("0:send", 0), late]), "0");
    assert_eq!(known.invocation.unwrap().decision, Some(InvocationDecision::Happened));
    assert_eq!(known.answer, Some(RecordedResult::Step(Err(json("\"no\"")))));
}

#[test]
fn what_nobody_asked_for_is_found_closed_or_not_and_in_the_order_of_the_code() {
    let mut events = complete("10:send", "10");
    events.extend([started("9:look", EffectClass::Read), started("2.i10.0:look", EffectClass::Read)]);
    events.push(started("2.i9.0:look", EffectClass::Read));
    let mut history = History::fold(events);
    assert_eq!(history.leftover().unwrap().command, command("10:send"), "an answer goes first");
    assert!(history.take_delivery("10", Waker::noop()).is_some());
    for next in ["2.i9.0:look", "2.i10.0:look", "9:look"] {
        assert_eq!(history.leftover().unwrap().command, command(next));
        assert!(history.request(command(next).place()).is_some());
    }
    assert_eq!(history.leftover(), None);
}

#[test]
fn of_a_lost_branch_closed_records_are_forgotten_too() {
    let mut events = complete("0.b0.0:send", "1");
    events.extend(complete("0.b1.0:send", "2"));
    events.extend([time("0.b1.1:now", 7), race("0:race", "0.b0")]);
    let mut history = History::fold(events);
    assert_eq!(order(&mut history, &["0.b0.0", "0"]), ["0.b0.0", "0"]);
    assert_eq!((history.peek("0.b1.0").cloned(), history.peek("0.b1.1").cloned()), (None, None));
}

#[test]
fn items_and_what_is_open_are_counted_beside_closed_records() {
    let mut events = complete("0.i3.0:send", "1");
    events.extend([started("0.i1.0:send", EffectClass::Tool), intent("0.i1.0:send", 0)]);
    let history = History::fold(events);
    assert_eq!(history.items_of("0"), 4);
    let unsettled: Vec<_> = history.unsettled(&command("9:send")).cloned().collect();
    assert_eq!(unsettled, [command("0.i1.0:send")]);
    assert!(history.replays("0.i1") && !history.unwinding().is_exhausted());
}

#[test]
fn a_closed_record_behind_a_mark_tells_that_the_run_has_passed_it() {
    let mut history = History::fold(complete("3:send", "1"));
    let mark = Mark::new("", 2, "m", (1, 2), false);
    assert_eq!(history.version(&mark, Waker::noop()), Poll::Ready(Some(1)));
}

#[test]
fn a_step_that_was_tried_again_is_closed_too() {
    let mut events = vec![started("0:send", EffectClass::Tool), intent("0:send", 0), retried("0:send", 0)];
    events.push(intent("0:send", 1));
    events.extend(complete("0:send", "7").into_iter().skip(2));
    let mut history = History::fold(events);
    assert_eq!(history.commands.open().count(), 0);
    let record = history.request("0").unwrap();
    assert_eq!((record.failed_attempts, &record.answer, record.details().retry_due), (1, &value("7"), None));
}

#[test]
fn of_races_within_races_what_lost_in_any_of_them_is_forgotten() {
    let events = [
        time("0.b0.0.b1.0:now", 1),
        time("0.b0.0.b0.0:now", 2),
        race("0.b0.0:race", "0.b0.0.b0"),
        time("0.b1.0:now", 3),
        race("0:race", "0.b0"),
        PlanGenerated { command: command("1:plan"), plan: json("{}") }.into(),
        time("1.0:now", 4),
    ];
    let mut history = History::fold(events);
    let places = ["0.b0.0.b1.0", "0.b0.0.b0.0", "0.b0.0", "0.b1.0", "0", "1", "1.0"];
    assert_eq!(order(&mut history, &places), ["0.b0.0.b0.0", "0.b0.0", "0", "1"]);
    assert!(history.commands.is_empty());
}

/// The place of a call that may have been made is used.
#[test]
fn a_wait_for_a_limit_counts_until_the_call_may_have_been_made() {
    let waited = |attempt| {
        let (command, limit) = (command("0:send"), "bank".to_owned());
        Event::from(LimitAwaited { command, attempt, limit, until: second(9), held_ms: 0 })
    };
    let again = || resolved("0:send", InvocationDecision::Retry);
    let mut journal = vec![waited(0)];
    for (event, counts) in [
        (intent("0:send", 0), false),
        (again(), false),
        (waited(0), true),
        (again(), false),
        (waited(0), true),
    ] {
        journal.push(event);
        assert_eq!(record(journal.clone(), "0").details().limited.is_some(), counts, "{journal:?}");
    }
    assert!(record([waited(0)], "0").details().limited.is_some());
}
