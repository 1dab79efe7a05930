//! People: approvals of steps, decisions and questions of workflows, and their time limits. Rows 85, 86, 87, 97.

use std::time::Duration;

use aether::definition::Step;
use aether::id::{CommandId, RunId};
use aether::people::{Approvals, DecideError, Decision, Pending, Waiting};
use aether::prelude::*;
use aether::store::StoreError;
use aether::store::event::Event;
use aether::view::RunView;
use aether::view::{Status, Trigger};

use super::kit::{Calls, Journal, Place, Rows, builder, in_time, json, run_id, stores};

/// Pay somebody, if a person agrees.
#[step(effect = "tool", irreversible, approval = "required")]
pub(super) async fn remit(cx: &mut StepCx, to: &str, cents: u32) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("paid {cents} to {to}"))
}

/// Pay somebody; large sums need a person.
#[step(effect = "tool", approval = |cents| *cents > 100)]
pub(super) async fn remit_small(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Pay somebody, quickly.
#[step(effect = "tool", timeout = "5ms")]
async fn remit_quickly(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    std::future::pending().await
}

/// Pay quickly.
#[workflow]
async fn seed_remit_quickly(cx: &mut Cx) -> Result<String> {
    Ok(told(remit_quickly(cx).await))
}

/// Look, without asking anybody.
#[step(effect = "read")]
pub(super) async fn peek(cx: &mut StepCx, what: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(what)
}

/// What became of a call, in words.
fn told<T: ToString>(result: std::result::Result<T, StepError>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(StepError::Rejected(why)) => format!("rejected: {why}"),
        Err(StepError::TimedOut(why)) => format!("timed out: {why}"),
        Err(StepError::Cancelled(why)) => format!("cancelled: {why}"),
        Err(other) => format!("other: {other}"),
    }
}

/// Pay Bob.
#[workflow]
pub(super) async fn seed_remit(cx: &mut Cx, cents: u32) -> Result<String> {
    let paid = told(remit(cx, "bob", cents).await);
    Ok(format!("{paid}; {}", peek(cx, 1).await?))
}

/// Pay small and large sums, and look.
#[workflow]
pub(super) async fn seed_remit_small(cx: &mut Cx, cents: u32) -> Result<String> {
    let paid = told(remit_small(cx, cents).await);
    Ok(format!("{paid}; {}", told(peek(cx, 1).await)))
}

/// Wait for a word before there is anything to approve.
#[workflow]
async fn seed_remit_later(cx: &mut Cx) -> Result<String> {
    let cents: u32 = cx.signal("sum").await?;
    Ok(told(remit(cx, "bob", cents).await))
}

/// Ask a person for a decision, in words.
#[workflow]
pub(super) async fn seed_decide(cx: &mut Cx, limit_ms: Option<u64>) -> Result<String> {
    let mut request = cx.approval("refund over limit").details(&("ticket", 42));
    if let Some(limit) = limit_ms {
        request = request.expires(Duration::from_millis(limit));
    }
    let decision = request.await?;
    let granted = told(decision.clone().granted());
    Ok(match decision {
        Decision::Approved { by } => format!("yes from {by}; {granted}"),
        Decision::Rejected { by, reason } => format!("no from {by}, {reason}; {granted}"),
        Decision::Expired(_) => format!("expired; {granted}"),
    })
}

/// Ask a person how many.
#[workflow]
pub(super) async fn seed_question(cx: &mut Cx, limit_ms: Option<u64>) -> Result<String> {
    let mut question = cx.ask::<u32>("How many?");
    if let Some(limit) = limit_ms {
        question = question.expires(Duration::from_millis(limit));
    }
    let seats = told(question.await);
    Ok(format!("{seats}; {}", peek(cx, 1).await?))
}

/// Wait for a payment, not for ever.
#[workflow]
pub(super) async fn seed_paid(cx: &mut Cx, limit_ms: u64) -> Result<String> {
    Ok(told(cx.signal::<u32>("paid").timeout(Duration::from_millis(limit_ms)).await))
}

/// Ask for a decision, but not for longer than it takes to get a word.
#[workflow]
async fn seed_overtaken(cx: &mut Cx) -> Result<String> {
    cx.race((
        async |cx: &mut Cx| -> Result<String> { Ok(cx.approval("go on").await?.granted()?) },
        async |cx: &mut Cx| -> Result<String> { Ok(cx.signal::<String>("word").await?) },
    ))
    .await?;
    Ok(told(cx.signal::<u32>("end").await))
}

/// An engine that suspends what waits at once.
pub(super) fn prompt(place: &Place, calls: &Calls) -> aether::engine::EngineBuilder {
    builder(&place.store, calls).eviction_grace(Duration::from_millis(1))
}

/// The first thing that waits in `run`, once it does.
pub(super) async fn pending(engine: &Engine, run: &RunId) -> Pending {
    in_time(async {
        loop {
            let mut open = engine.pending(run).await.unwrap();
            open.retain(|wait| wait.waiting.is_for_reply() && wait.waiting != Waiting::Signal);
            if let Some(pending) = open.pop() {
                return pending;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// Waits until the run lives in the store alone.
pub(super) async fn suspended(engine: &Engine, run: &RunId) {
    in_time(async {
        while engine.find(run.as_str()).await.unwrap().status().await.unwrap() != Status::Waiting {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

fn triggers(view: &RunView, contract: &str) -> Vec<(Trigger, String)> {
    let execution = view.executions.iter().find(|execution| execution.id.as_str() == contract);
    let execution = execution.unwrap_or_else(|| panic!("no {contract}: {:?}", view.executions));
    execution.lifecycle.transitions.iter().map(|moved| (moved.trigger, moved.actor.clone())).collect()
}

#[tokio::test]
async fn s086_a_word_to_what_does_not_wait_is_a_typed_error_and_executes_nothing() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_remit_later>(()).id("pay").await.unwrap();
        let (id, command) = (run.id().clone(), CommandId::new("1", "remit"));
        let approve = async |actor: &str| engine.approve(&id, &command, actor).await;

        // Before the run is at the wait.
        assert!(matches!(approve("ann").await, Err(DecideError::UnknownCommand { .. })));
        suspended(&engine, &id).await;
        let signal = CommandId::new("0", "signal");
        let early = engine.approve(&id, &signal, "ann").await;
        assert!(matches!(early, Err(DecideError::NotWaiting { .. })), "{early:?}");
        engine.signal(&id, "sum", "s", &500).await.unwrap();
        pending(&engine, &id).await;

        assert!(matches!(approve(" ").await, Err(DecideError::NoActor { .. })));
        let answered = engine.answer(&id, &command, &true, "ann").await.unwrap_err();
        assert!(matches!(&answered, DecideError::NotWaiting { wanted: Waiting::Question, .. }), "{answered}");
        let nobody = engine.approve(&run_id("nobody"), &command, "ann").await;
        assert!(matches!(nobody, Err(DecideError::Store(StoreError::UnknownRun { .. }))), "{nobody:?}");
        assert_eq!((calls.all(), pending(&engine, &id).await.refused.len()), (0, 0));

        // Of many at once, through two engines, exactly one wins.
        let other = prompt(&place, &calls).start().await.unwrap();
        let mut words = Vec::new();
        for number in 0..8 {
            let engine = if number % 2 == 0 { engine.clone() } else { other.clone() };
            let (id, command) = (id.clone(), command.clone());
            words.push(tokio::spawn(
                async move { engine.approve(&id, &command, &format!("p{number}")).await },
            ));
        }
        let mut taken = 0;
        for word in words {
            match word.await.unwrap() {
                Ok(()) => taken += 1,
                Err(DecideError::AlreadyDecided { by, .. }) => assert!(by.starts_with('p'), "{by}"),
                Err(DecideError::RunEnded { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(taken, 1);
        assert_eq!(in_time(run.result()).await.unwrap(), "paid 500 to bob");
        assert_eq!(calls.of("remit"), 1);
        assert!(matches!(approve("ann").await, Err(DecideError::RunEnded { status: Status::Completed, .. })));
        let journal = Journal::read(&place.store, "pay").await;
        assert_eq!(journal.count("approval_decided", "remit"), 1);
    }
}

#[tokio::test]
async fn s086_what_lost_a_race_waits_for_nobody() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_overtaken>(()).id("race").await.unwrap();
        let waits = pending(&engine, run.id()).await;
        engine.signal(run.id(), "word", "w", &"go").await.unwrap();
        in_time(async {
            while engine.pending(run.id()).await.unwrap().iter().any(|wait| wait.command == waits.command) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        let late = engine.approve(run.id(), &waits.command, "ann").await;
        assert!(matches!(late, Err(DecideError::NotWaiting { .. })), "{late:?}");
        engine.signal(run.id(), "end", "e", &1).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "1");
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s086_twice_is_once() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        // Nobody advances the run: the decision lies in the inbox.
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_decide>(None).id("pay").await.unwrap();
        let waits = pending(&engine, run.id()).await;
        assert_eq!(waits.question, Some(json(r#"{"what":"refund over limit","details":["ticket",42]}"#)));
        let edited = engine.approve_with(run.id(), &waits.command, &1, "ann").await;
        assert!(matches!(edited, Err(DecideError::NothingToEdit { .. })), "{edited:?}");
        engine.approve(run.id(), &waits.command, "ann").await.unwrap();
        match engine.reject(run.id(), &waits.command, "changed my mind", "bob").await {
            Err(DecideError::AlreadyDecided { by, .. }) => assert_eq!(by, "ann"),
            Err(DecideError::RunEnded { .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(in_time(run.result()).await.unwrap(), "yes from ann; ann");
    }
}

#[tokio::test]
async fn s085_a_human_step_waits_and_everything_is_persisted() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_question>(None).id("ask").await.unwrap();
        pending(&engine, run.id()).await;
        suspended(&engine, run.id()).await;
        let before = engine.view(run.id()).await.unwrap();
        assert_eq!((before.status, before.steps[0].status), (Status::Waiting, Status::Waiting));
        let began: Vec<_> = triggers(&before, "0:ask#0").into_iter().map(|(trigger, _)| trigger).collect();
        assert_eq!(began, [Trigger::Start, Trigger::Suspend], "pending, running, waiting");
        drop(engine);

        // Another process, as it were, sees the same.
        let engine = prompt(&place, &calls).start().await.unwrap();
        let after = engine.view(&run_id("ask")).await.unwrap();
        assert_eq!((&after.executions, &after.steps), (&before.executions, &before.steps));
        assert_eq!(engine.pending(&run_id("ask")).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn s087_the_answer_is_injected_and_the_run_continues() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_question>(None).id("ask").await.unwrap();
        let question = pending(&engine, run.id()).await;
        suspended(&engine, run.id()).await;
        // An answer of another type is refused on the record, and the question stays open.
        engine.answer(run.id(), &question.command, &"a few", "bob").await.unwrap();
        in_time(async {
            while pending(&engine, run.id()).await.refused.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        assert_eq!(calls.all(), 0);
        engine.answer(run.id(), &question.command, &4, "ann").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "4; 1");
        let view = engine.view(run.id()).await.unwrap();
        let moves = triggers(&view, "0:ask#0");
        let order: Vec<_> = moves.iter().map(|(trigger, _)| *trigger).collect();
        assert_eq!(order, [Trigger::Start, Trigger::Suspend, Trigger::Resume, Trigger::Succeed]);
        assert_eq!(moves[2].1, "ann");
        assert!(view.illegal.is_empty(), "{:?}", view.illegal);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn a_workflows_decision_is_typed_and_a_rejection_is_no_success() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_decide>(None).id("no").await.unwrap();
        let waits = pending(&engine, run.id()).await;
        engine.reject(run.id(), &waits.command, "not now", "ann").await.unwrap();
        assert_eq!(
            in_time(run.result()).await.unwrap(),
            "no from ann, not now; rejected: ann said no: not now"
        );
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!((view.steps[0].status, view.completed().len()), (Status::Rejected, 0));
        assert_eq!(view.executions[0].lifecycle.status, Status::Rejected);
        assert!(view.illegal.is_empty(), "{:?}", view.illegal);
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn s097_what_expires_is_cancelled_and_waits_have_no_limit_of_their_own() {
    let limits = [remit::DEF, remit_quickly::DEF, peek::DEF].map(|def| def.options.timeout);
    assert_eq!(limits, [Some(Duration::from_secs(30)), Some(Duration::from_millis(5)), None]);
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let approvals = Approvals::new().expires(Duration::from_millis(20));
        let engine = prompt(&place, &calls).approvals(approvals).start().await.unwrap();
        let remitted = engine.start::<seed_remit>(500).id("step").await.unwrap();
        let decided = engine.start::<seed_decide>(Some(20)).id("decision").await.unwrap();
        let asked = engine.start::<seed_question>(Some(20)).id("question").await.unwrap();
        let paid = engine.start::<seed_paid>(20).id("signal").await.unwrap();
        let endless = engine.start::<seed_decide>(None).id("endless").await.unwrap();
        let said = in_time(remitted.result()).await.unwrap();
        assert!(said.starts_with("timed out: no one approved the call of `remit` in time"), "{said}");
        assert_eq!(in_time(decided.result()).await.unwrap(), "expired; timed out: no decision came in time");
        assert!(in_time(asked.result()).await.unwrap().starts_with("timed out: no answer came in time"));
        assert!(
            in_time(paid.result()).await.unwrap().starts_with("timed out: no signal `paid` came in time")
        );
        assert_eq!(calls.of("remit"), 0);
        for run in ["step", "decision", "question", "signal"].map(run_id) {
            let view = engine.view(&run).await.unwrap();
            assert_eq!(
                (view.steps[0].status, view.illegal.len()),
                (Status::Cancelled, 0),
                "{:?}",
                view.illegal
            );
            assert!(
                view.executions.iter().all(|e| e.lifecycle.status.is_terminal()),
                "{:?}",
                view.executions
            );
            assert_eq!(view.executions[0].lifecycle.status, Status::Cancelled);
            engine.verify(&run).await.unwrap();
            let late = engine.approve(&run, &view.steps[0].command, "ann").await;
            assert!(matches!(late, Err(DecideError::RunEnded { .. })), "{late:?}");
        }
        let quick = engine.start::<seed_remit_quickly>(()).id("quick").await.unwrap();
        let said = in_time(quick.result()).await.unwrap();
        assert!(said.contains("in doubt") && said.contains("no answer within 5ms"), "{said}");
        let waits = pending(&engine, endless.id()).await;
        assert_eq!(waits.until, None);
        engine.approve(endless.id(), &waits.command, "ann").await.unwrap();
        assert_eq!(in_time(endless.result()).await.unwrap(), "yes from ann; ann");
    }
}

#[tokio::test]
async fn s097_a_word_in_time_wins_over_the_limit_and_a_late_one_is_told_so() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = prompt(&place, &calls).start().await.unwrap();
        let run = engine.start::<seed_decide>(Some(3_600_000)).id("slow").await.unwrap();
        let waits = pending(&engine, run.id()).await;
        assert!(waits.until.is_some());
        suspended(&engine, run.id()).await;
        engine.approve(run.id(), &waits.command, "ann").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "yes from ann; ann");

        // A wait whose limit passed while no process ran: too late for a person, before the engine has looked.
        let mut past = Journal::read(&place.store, "slow").await.through("approval_requested", "approval");
        past.run = "late".into();
        if let Some(Event::ApprovalRequested(e)) = past.events.last_mut() {
            e.until = Some(super::kit::past());
        }
        let hand = past.hold(&place.store, Rows::Follow).await;
        let late = engine.approve(&run_id("late"), &waits.command, "ann").await;
        assert!(matches!(late, Err(DecideError::Expired { .. })), "{late:?}");
        hand.let_go().await;
        let run = engine.handle::<seed_decide>("late").await.unwrap();
        assert!(in_time(run.result()).await.unwrap().starts_with("expired"));
    }
}
