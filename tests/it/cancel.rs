//! Cancelling and terminating: what bodies in flight are told, what is recorded of them, and what begins no more.

use std::sync::Arc;
use std::time::Duration;

use aether::definition::Workflow;
use aether::engine::RunEnd;
use aether::error::RunError;
use aether::prelude::*;
use aether::store::Store;
use aether::store::event::Event;
use aether::view::Status;

use crate::seeds::kit::{Calls, Journal, builder, in_time, run_id, stores};

/// Longer than any of these tests may take.
const FOR_EVER: Duration = Duration::from_secs(600);

/// Work until told to stop, and say how far it came.
#[step(effect = "tool", timeout = "none")]
async fn work(cx: &mut StepCx) -> Result<String> {
    Calls::note(cx)?;
    cx.cancelled().await;
    assert!(cx.is_cancelled());
    Ok("stopped in time".into())
}

/// Work, whatever one is told.
#[step(effect = "tool", timeout = "none")]
async fn work_on(cx: &mut StepCx) -> Result<String> {
    Calls::note(cx)?;
    std::future::pending().await
}

/// Fail when told to stop, in a way that may be tried again.
#[step(effect = "tool", idempotent, retry(max_retries = 5, delay = "1ms"), timeout = "none")]
async fn give_up(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    cx.cancelled().await;
    Err(Failure::retryable("told to stop"))
}

/// Lose the answer when told to stop.
#[step(effect = "tool", idempotent, on_unknown = "retry", timeout = "none")]
async fn lose_touch(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    cx.cancelled().await;
    Err(Failure::unknown("the connection broke"))
}

/// Read for ever.
#[step(effect = "read")]
async fn read_on(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    std::future::pending().await
}

/// What must not happen.
#[step(effect = "tool")]
async fn more(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)
}

/// Work, and then more.
#[workflow]
async fn working(cx: &mut Cx) -> Result<String> {
    let worked = work(cx).await?;
    more(cx).await?;
    Ok(worked)
}

/// Work that comes last.
#[workflow]
async fn working_last(cx: &mut Cx) -> Result<String> {
    Ok(work(cx).await?)
}

/// Work on.
#[workflow]
async fn working_on(cx: &mut Cx) -> Result<String> {
    Ok(work_on(cx).await?)
}

/// Work that gives up, and is tried again.
#[workflow]
async fn giving_up(cx: &mut Cx) -> Result<()> {
    Ok(give_up(cx).await?)
}

/// Work whose answer is lost, and that is sent again.
#[workflow]
async fn losing_touch(cx: &mut Cx) -> Result<()> {
    Ok(lose_touch(cx).await?)
}

/// Read for ever.
#[workflow]
async fn reading(cx: &mut Cx) -> Result<()> {
    Ok(read_on(cx).await?)
}

async fn called(calls: &Calls, name: &str) {
    in_time(async {
        while calls.of(name) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A run of `W` that was cancelled while `step` was in flight.
async fn cancelled<W: Workflow<Input = ()>>(
    store: &Arc<dyn Store>,
    step: &str,
    grace: Duration,
) -> (Engine, Calls, Journal) {
    let calls = Calls::default();
    let engine = builder(store, &calls).cancel_grace(grace).start().await.unwrap();
    let run = engine.start::<W>(()).id("work").await.unwrap();
    called(&calls, step).await;
    engine.cancel(run.id(), "enough", "ann").await.unwrap();
    match in_time(run.end()).await.unwrap() {
        RunEnd::Cancelled { reason, actor, .. } => assert_eq!((&*reason, &*actor), ("enough", "ann")),
        other => panic!("{other:?}"),
    }
    engine.verify(run.id()).await.unwrap();
    let journal = Journal::read(store, "work").await;
    (engine, calls, journal)
}

#[tokio::test]
async fn a_body_that_stops_in_time_is_recorded_and_nothing_follows_it() {
    for place in stores() {
        let place = place();
        let (engine, calls, journal) = cancelled::<working>(&place.store, "work", FOR_EVER).await;
        assert_eq!(journal.count("step_committed", "work"), 1);
        assert_eq!(calls.of("more"), 0);
        assert_eq!(journal.kinds_of("more").len(), 0);
        assert!(engine.view(&run_id("work")).await.unwrap().in_doubt().is_empty());
    }
}

#[tokio::test]
async fn a_run_that_was_cancelled_does_not_complete_behind_it() {
    for place in stores() {
        let place = place();
        let (.., journal) = cancelled::<working_last>(&place.store, "work", FOR_EVER).await;
        assert_eq!(journal.count("step_committed", "work"), 1);
        assert_eq!(journal.kinds().last().unwrap(), "run_cancelled");
    }
}

#[tokio::test]
async fn a_body_that_does_not_stop_stays_in_doubt() {
    for place in stores() {
        let place = place();
        let (engine, _, journal) =
            cancelled::<working_on>(&place.store, "work_on", Duration::from_millis(20)).await;
        assert_eq!(journal.count("invocation_abandoned", "work_on"), 1);
        assert_eq!(engine.view(&run_id("work")).await.unwrap().in_doubt().len(), 1);
        let [row] = engine.ledger(&run_id("work")).await.unwrap().try_into().unwrap();
        assert_eq!(row.status, aether::store::ledger::LedgerStatus::InDoubt);
    }
}

#[tokio::test]
async fn a_failed_attempt_is_recorded_and_not_made_again() {
    for place in stores() {
        let place = place();
        let (_, calls, journal) = cancelled::<giving_up>(&place.store, "give_up", FOR_EVER).await;
        assert_eq!((calls.of("give_up"), journal.count("step_retried", "give_up")), (1, 1));
        assert_eq!(journal.count("tool_invocation_finished", "give_up"), 1);
    }
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_meanwhile_is_in_doubt_and_not_sent_again() {
    for place in stores() {
        let place = place();
        let (engine, calls, journal) = cancelled::<losing_touch>(&place.store, "lose_touch", FOR_EVER).await;
        assert_eq!(calls.of("lose_touch"), 1);
        assert_eq!(journal.count("invocation_abandoned", "lose_touch"), 1);
        assert_eq!(engine.view(&run_id("work")).await.unwrap().in_doubt().len(), 1);
    }
}

#[tokio::test]
async fn a_read_in_flight_is_dropped_at_once() {
    for place in stores() {
        let place = place();
        // With a grace that would outlast the test.
        cancelled::<reading>(&place.store, "read_on", FOR_EVER).await;
    }
}

#[tokio::test]
async fn termination_waits_for_nobody() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).cancel_grace(FOR_EVER).start().await.unwrap();
        let run = engine.start::<working_on>(()).id("work").await.unwrap();
        called(&calls, "work_on").await;
        // The run is being cancelled, and waits for its body.
        engine.cancel(run.id(), "enough", "ann").await.unwrap();
        run.terminate("at once", "bob").await.unwrap();
        let ended = in_time(run.result()).await.unwrap_err();
        assert!(matches!(&ended, RunError::Terminated { actor, .. } if actor == "bob"), "{ended:?}");
        assert_eq!(run.status().await.unwrap(), Status::Cancelled);
        assert_eq!(engine.view(run.id()).await.unwrap().in_doubt().len(), 1);
        engine.verify(run.id()).await.unwrap();
    }
}

/// The run is advanced by another engine, which learns of it through the store.
#[tokio::test]
async fn a_busy_run_of_another_process_is_told_too() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let theirs = builder(&place.store, &calls).start().await.unwrap();
        let run = theirs.start::<working>(()).id("work").await.unwrap();
        called(&calls, "work").await;
        let ours = builder(&place.store, &Calls::default()).start().await.unwrap();
        ours.cancel(run.id(), "enough", "ann").await.unwrap();
        assert!(matches!(in_time(run.end()).await.unwrap(), RunEnd::Cancelled { .. }));
        let journal = Journal::read(&place.store, "work").await;
        assert_eq!(journal.count("step_committed", "work"), 1);
    }
}

/// A process died with a payment in flight; the run is cancelled before anybody takes it up.
#[tokio::test]
async fn an_invocation_that_a_dead_process_left_is_named_by_the_cancellation() {
    use crate::seeds::kit::Rows;
    let recording = crate::seeds::kit::Place::memory();
    let (.., whole) = cancelled::<working>(&recording.store, "work", FOR_EVER).await;
    for place in stores() {
        for rows in [Rows::Follow, Rows::Absent] {
            let place = place();
            let left = whole.through("tool_invocation_started", "work");
            let hand = left.hold(&place.store, rows).await;
            let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
            engine.cancel(&run_id("work"), "enough", "ann").await.unwrap();
            hand.let_go().await;
            let run = engine.handle::<working>("work").await.unwrap();
            assert!(matches!(in_time(run.end()).await.unwrap(), RunEnd::Cancelled { .. }));
            let journal = Journal::read(&place.store, "work").await;
            assert_eq!(journal.count("invocation_abandoned", "work"), 1);
            let rows = engine.ledger(run.id()).await.unwrap();
            assert!(
                rows.iter().all(|row| row.status == aether::store::ledger::LedgerStatus::InDoubt),
                "{rows:?}"
            );
            assert!(journal.events.iter().all(|event| !matches!(event, Event::RunUnwinding(_))));
        }
    }
}
