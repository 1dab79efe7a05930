//! Invocations that were pending when the process died: rows 45, 46, 50 and 57 of the seeds.

use std::time::Duration;

use aether::definition::Workflow;
use aether::effect::Payload;
use aether::error::RunError;
use aether::id::{InvocationId, WorkerId};
use aether::people::Resolution;
use aether::prelude::*;
use aether::store::event::{Event, InvocationDecision, RunRequeued};
use aether::store::ledger::{LedgerStatus, LedgerUpdate};
use aether::view::Status;

use super::chain::{links, recorded, result_of, seed_chain};
use super::kit::{Calls, Journal, Place, Rows, builder, failed, in_time, json, resume, run_id, stores};

/// The value of the body, which the tests below do not want to see made again.
fn made(cx: &StepCx) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("made {} {}", cx.uuid(), cx.idempotency_key()))
}

/// In doubt is a failure.
#[step(effect = "tool")]
async fn pay_or_fail(cx: &mut StepCx) -> Result<String> {
    made(cx)
}

/// In doubt is a question.
#[step(effect = "tool", on_unknown = "ask")]
async fn pay_or_ask(cx: &mut StepCx) -> Result<String> {
    made(cx)
}

/// In doubt is sent again.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn pay_again(cx: &mut StepCx) -> Result<String> {
    made(cx)
}

/// What the world says.
async fn was_paid(cx: &mut StepCx, found: u32) -> Result<Probe<String>> {
    cx.dep::<Calls>()?.add("probe", cx.idempotency_key().as_str());
    match found {
        0 => Ok(Probe::Happened("found".into())),
        1 => Ok(Probe::DidNotHappen),
        2 => Ok(Probe::Unknown),
        _ => Err(Failure::new("the bank is closed")),
    }
}

/// In doubt is looked at.
#[step(effect = "tool", probe = was_paid, on_unknown = "probe")]
async fn pay_or_look(cx: &mut StepCx, found: u32) -> Result<String> {
    let _ = found;
    made(cx)
}

/// Pay.
#[workflow]
async fn seed_pay_or_fail(cx: &mut Cx) -> Result<String> {
    Ok(pay_or_fail(cx).await?)
}

/// Pay.
#[workflow]
async fn seed_pay_or_ask(cx: &mut Cx) -> Result<String> {
    Ok(pay_or_ask(cx).await?)
}

/// Pay.
#[workflow]
async fn seed_pay_again(cx: &mut Cx) -> Result<String> {
    Ok(pay_again(cx).await?)
}

/// Pay.
#[workflow]
async fn seed_pay_or_look(cx: &mut Cx, found: u32) -> Result<String> {
    Ok(pay_or_look(cx, found).await?)
}

/// A run that died while its payment was in flight, in each store, with its row and without.
async fn in_flight<W: Workflow>(input: fn() -> W::Input, step: &str) -> Vec<(Place, Journal)> {
    let whole = Journal::record::<W>("pay", input()).await;
    let cut = whole.through("tool_invocation_started", step);
    let mut left = Vec::new();
    for place in stores() {
        for rows in [Rows::Follow, Rows::Absent] {
            let place = place();
            cut.plant(&place.store, rows).await;
            left.push((place, whole.clone()));
        }
    }
    left
}

fn decisions(journal: &Journal) -> Vec<(InvocationDecision, String)> {
    let decided = journal.events.iter().filter_map(|event| match event {
        Event::InvocationResolved(e) => Some((e.decision, e.actor.clone())),
        _ => None,
    });
    decided.collect()
}

#[tokio::test]
async fn s046_pending_without_result_is_never_run_blindly() {
    for (place, _) in in_flight::<seed_pay_or_fail>(|| (), "pay_or_fail").await {
        let calls = Calls::default();
        let (engine, result) = resume::<seed_pay_or_fail>(&place.store, "pay", &calls).await;
        let failure = failed(result);
        assert!(
            failure.message().contains("in doubt") && failure.message().contains("0:pay_or_fail#0"),
            "{failure}"
        );
        assert_eq!((failure.class(), calls.all()), (aether::error::FailureClass::Unknown, 0));
        let after = Journal::read(&place.store, "pay").await;
        assert_eq!(decisions(&after), [(InvocationDecision::InDoubt, "policy: fail".into())]);
        assert_eq!(engine.view(&run_id("pay")).await.unwrap().in_doubt().len(), 1);
        engine.verify(&run_id("pay")).await.unwrap();
        // The same error every time it is asked for again.
        for _ in 0..2 {
            let again = Place::memory();
            after.open().plant(&again.store, Rows::Absent).await;
            let (_engine, result) = resume::<seed_pay_or_fail>(&again.store, "pay", &calls).await;
            assert_eq!((failed(result), calls.all()), (failure.clone(), 0));
        }
    }
}

#[tokio::test]
async fn s046_a_question_waits_for_its_answer_and_never_calls_the_body() {
    for answer in 0..3 {
        for (place, _) in in_flight::<seed_pay_or_ask>(|| (), "pay_or_ask").await {
            let calls = Calls::default();
            let grace = Duration::from_millis(1);
            let engine = builder(&place.store, &calls).eviction_grace(grace).start().await.unwrap();
            let run = engine.handle::<seed_pay_or_ask>("pay").await.unwrap();
            let waits = async {
                while run.status().await.unwrap() != Status::Waiting {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            in_time(waits).await;
            assert_eq!(calls.all(), 0);
            let invocation = InvocationId::from("0:pay_or_ask#0".to_owned());
            let resolution = match answer {
                0 => Resolution::Happened(json("\"it did\"")),
                1 => Resolution::DidNotHappen,
                _ => Resolution::Abandon,
            };
            engine.resolve(run.id(), &invocation, resolution, "ann").await.unwrap();
            let result = in_time(run.result()).await;
            let decided = match answer {
                0 => {
                    assert_eq!((result.unwrap(), calls.all()), ("it did".into(), 0));
                    InvocationDecision::Happened
                }
                1 => {
                    assert!(result.unwrap().ends_with("aether:pay:0:pay_or_ask:1"));
                    assert_eq!(calls.keys("pay_or_ask"), ["aether:pay:0:pay_or_ask:1"]);
                    InvocationDecision::DidNotHappen
                }
                _ => {
                    assert!(failed(result).message().contains("in doubt"));
                    assert_eq!(calls.all(), 0);
                    InvocationDecision::InDoubt
                }
            };
            let after = Journal::read(&place.store, "pay").await;
            assert_eq!(
                decisions(&after),
                [(InvocationDecision::Ask, "policy: ask".into()), (decided, "ann".into())]
            );
            engine.verify(run.id()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn s046_a_repeat_is_sent_under_the_same_key() {
    for (place, whole) in in_flight::<seed_pay_again>(|| (), "pay_again").await {
        let calls = Calls::default();
        let (engine, result) = resume::<seed_pay_again>(&place.store, "pay", &calls).await;
        assert_eq!(calls.keys("pay_again"), ["aether:pay:0:pay_again:0"]);
        // A body that is sent again draws what it drew before.
        let Some(Event::RunCompleted(first)) = whole.events.last() else { panic!("{:?}", whole.kinds()) };
        assert_eq!(Payload::encode(&result.unwrap()).unwrap(), first.result);
        let after = Journal::read(&place.store, "pay").await;
        assert_eq!(decisions(&after), [(InvocationDecision::Retry, "policy: retry".into())]);
        engine.verify(&run_id("pay")).await.unwrap();
    }
}

#[tokio::test]
async fn s046_a_probe_decides_instead_of_the_body() {
    for (found, decided, called) in [
        (0, InvocationDecision::Happened, 0),
        (1, InvocationDecision::DidNotHappen, 1),
        (2, InvocationDecision::InDoubt, 0),
        (3, InvocationDecision::InDoubt, 0),
    ] {
        let whole = Journal::record::<seed_pay_or_look>("pay", found).await;
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            whole.through("tool_invocation_started", "pay_or_look").plant(&place.store, Rows::Follow).await;
            let (engine, result) = resume::<seed_pay_or_look>(&place.store, "pay", &calls).await;
            assert_eq!((calls.of("probe"), calls.of("pay_or_look")), (1, called), "{found}");
            let after = Journal::read(&place.store, "pay").await;
            assert_eq!(decisions(&after), [(decided, "probe".into())]);
            match decided {
                InvocationDecision::Happened => assert_eq!(result.unwrap(), "found"),
                InvocationDecision::DidNotHappen => {
                    assert_eq!(calls.keys("pay_or_look"), ["aether:pay:0:pay_or_look:1"])
                }
                _ => assert!(matches!(result, Err(RunError::Failed(_))), "{result:?}"),
            }
            engine.verify(&run_id("pay")).await.unwrap();
            assert_eq!(calls.of("probe"), 1);
        }
    }
}

/// The recorded chain, pending at `step`, while the ledger has the result.
async fn pending_with_result(whole: &Journal, step: &str, place: &Place) {
    let cut = whole.through("tool_invocation_started", step);
    let finished = whole.of(step).into_iter().find_map(|event| match event {
        Event::ToolInvocationFinished(e) => e.result,
        _ => None,
    });
    let started = cut.events.last().and_then(|event| cut.acquire(event)).unwrap().entry;
    let mut hand = cut.hold(&place.store, Rows::Follow).await;
    let silent = RunRequeued { worker: WorkerId::from("w".to_owned()), reason: "row".into() };
    let update = LedgerUpdate {
        key: started.key,
        status: LedgerStatus::Succeeded,
        result: finished,
        error: None,
        committed: true,
    };
    hand.append(&[silent.into()], None, vec![update]).await;
    hand.let_go().await;
}

#[tokio::test]
async fn s045_pending_with_a_result_in_the_ledger_is_caught_up_without_a_call() {
    let whole = recorded().await;
    for link in links().iter().filter(|link| matches!(link.name, "act" | "call_out" | "post")) {
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            pending_with_result(&whole, link.name, &place).await;
            let (engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
            assert_eq!((result.unwrap(), calls.of(link.body)), (result_of(&whole), 0));
            let after = Journal::read(&place.store, "chain").await;
            let caught_up = after.of(link.name).into_iter().filter(|event| match event {
                Event::ToolInvocationFinished(e) => e.caught_up,
                Event::CommandCommitted(e) => e.caught_up,
                _ => false,
            });
            assert_eq!(caught_up.count(), 2);
            assert_eq!(after.kinds_of(link.name), whole.kinds_of(link.name));
            engine.verify(&run_id("chain")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn s050_catching_up_leaves_the_events_of_an_uncrashed_run() {
    let whole = recorded().await;
    for link in links().iter().filter(|link| matches!(link.name, "act" | "call_out" | "post")) {
        for place in stores() {
            let (place, calls) = (place(), Calls::default());
            pending_with_result(&whole, link.name, &place).await;
            let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
            result.unwrap();
            assert_eq!(Journal::read(&place.store, "chain").await.facts(), whole.facts());
        }
        for kind in ["tool_invocation_finished", "command_committed", "step_committed"] {
            for place in stores() {
                let (place, calls) = (place(), Calls::default());
                whole.through(kind, link.name).plant(&place.store, Rows::Follow).await;
                let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
                result.unwrap();
                assert_eq!(Journal::read(&place.store, "chain").await.facts(), whole.facts(), "{kind}");
            }
        }
    }
}

#[tokio::test]
async fn s057_the_body_sees_the_recorded_key_before_and_after_a_crash() {
    let whole = Journal::record::<seed_pay_again>("pay", ()).await;
    let recorded: Vec<_> = whole
        .events
        .iter()
        .filter_map(|event| match event {
            Event::ToolInvocationStarted(e) => Some(e.key.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(recorded.len(), 1);
    for place in stores() {
        for cut in [whole.first(1), whole.through("tool_invocation_started", "pay_again")] {
            let (place, calls) = (place(), Calls::default());
            cut.plant(&place.store, Rows::Follow).await;
            let (_engine, result) = resume::<seed_pay_again>(&place.store, "pay", &calls).await;
            result.unwrap();
            assert_eq!(calls.keys("pay_again"), recorded);
        }
    }
}
