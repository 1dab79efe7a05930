//! Runs whose steps are undone by a program that has none of their code, or not the code that they wait for.

use std::sync::Arc;
use std::time::Duration;

use aether::prelude::*;
use aether::store::event::Event;
use aether::store::{RunFilter, Store};
use aether::view::Status;

use super::{Stage, called, consent, ended, lend_car, recorded, take_money};
use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, json, run_id, stores};

/// Take money, and wait for a word.
#[workflow]
async fn take_and_wait(cx: &mut Cx, cents: u32) -> Result<u32> {
    take_money(cx, cents).await?;
    Ok(cx.signal("never").await?)
}

/// What cannot be weighed; what it gives does not read back.
#[step(effect = "tool", compensate = unweigh)]
async fn weigh(cx: &mut StepCx) -> Result<f64> {
    Calls::note(cx)?;
    Ok(f64::NAN)
}

/// Never made.
#[step(effect = "tool")]
async fn unweigh(cx: &mut StepCx, weighed: Option<f64>) -> Result<()> {
    let _ = weighed;
    Calls::note(cx)
}

/// Lend a car, and fail with what was weighed.
#[workflow]
async fn lend_and_weigh(cx: &mut Cx) -> Result<f64> {
    lend_car(cx, 7).await?;
    Ok(weigh(cx).await?)
}

/// An engine that leaves a run to its store as soon as that only waits.
async fn engine(store: &Arc<dyn Store>, calls: &Calls, stage: &Stage) -> Engine {
    let builder = builder(store, calls).provide(stage.clone()).cancel_grace(Duration::ZERO);
    builder.eviction_grace(Duration::from_millis(5)).start().await.unwrap()
}

/// What a run of `take_and_wait` records until it waits.
async fn taken() -> Journal {
    let (place, calls) = (Place::memory(), Calls::default());
    let engine = engine(&place.store, &calls, &Stage::new(0)).await;
    engine.start::<take_and_wait>(7).id("taken").await.unwrap();
    recorded(&place, "taken", "wait_started", "signal", 1).await;
    Journal::read(&place.store, "taken").await.through("wait_started", "signal")
}

fn with_created(journal: &Journal, change: impl Fn(&mut aether::store::event::RunCreated)) -> Journal {
    let mut changed = journal.clone();
    for event in &mut changed.events {
        if let Event::RunCreated(created) = event {
            change(created);
        }
    }
    changed
}

/// The journal as if its workflow had another name.
fn of_a_workflow_that_is_gone(journal: &Journal) -> Journal {
    with_created(journal, |created| created.workflow = "gone_since".into())
}

async fn parked(place: &Place, run: &str) {
    in_time(async {
        while !place.store.run(&run_id(run)).await.unwrap().unwrap().parked {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_undoing_without_its_workflow_goes_on_after_a_wait_and_after_a_restart() {
    let gone = of_a_workflow_that_is_gone(&taken().await);
    for dies in [false, true] {
        for place in stores() {
            let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
            gone.plant(&place.store, Rows::Follow).await;
            let mut engine = engine(&place.store, &calls, &stage).await;
            parked(&place, "taken").await;
            engine.cancel(&run_id("taken"), "not wanted", "ann").await.unwrap();
            // It fails once, and waits.
            recorded(&place, "taken", "step_retried", "refund", 1).await;
            let record = place.store.run(&run_id("taken")).await.unwrap().unwrap();
            assert!(!record.parked, "it waits for no code: {record:?}");
            assert_eq!(engine.view(&run_id("taken")).await.unwrap().parked, None);
            if dies {
                engine.shutdown_within(Duration::ZERO).await.unwrap();
                engine = self::engine(&place.store, &calls, &stage).await;
            }
            let view = ended(&engine, "taken").await;
            assert_eq!((view.status, calls.of("refund")), (Status::Cancelled, 2), "dies: {dies}");
            assert_eq!(view.uncompensated, []);
        }
    }
}

#[tokio::test]
async fn an_undoing_that_a_build_with_the_workflow_began_needs_no_build_with_it() {
    let begun = {
        let (place, calls) = (Place::memory(), Calls::default());
        let engine = engine(&place.store, &calls, &Stage::new(1)).await;
        let run = engine.start::<take_and_wait>(7).id("taken").await.unwrap();
        recorded(&place, "taken", "wait_started", "signal", 1).await;
        engine.cancel(run.id(), "not wanted", "ann").await.unwrap();
        ended(&engine, "taken").await;
        Journal::read(&place.store, "taken").await.through("step_retried", "refund")
    };
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(0));
        of_a_workflow_that_is_gone(&begun).plant(&place.store, Rows::Follow).await;
        let engine = engine(&place.store, &calls, &stage).await;
        let view = ended(&engine, "taken").await;
        assert_eq!((view.status, calls.of("refund")), (Status::Cancelled, 1));
        let journal = Journal::read(&place.store, "taken").await;
        assert!(!journal.kinds().contains(&"run_parked".to_owned()), "{:?}", journal.kinds());
    }
}

#[tokio::test]
async fn a_run_that_did_not_fit_where_it_went_on_is_undone_there() {
    // It asks for another sum than is recorded.
    let other = with_created(&taken().await, |created| {
        created.input = json(&created.input.as_str().replace('7', "8"));
    });
    for place in stores() {
        let (place, calls, stage) = (place(), Calls::default(), Stage::new(1));
        other.plant(&place.store, Rows::Follow).await;
        let engine = engine(&place.store, &calls, &stage).await;
        parked(&place, "taken").await;
        engine.cancel(&run_id("taken"), "not wanted", "ann").await.unwrap();
        let view = ended(&engine, "taken").await;
        assert_eq!((view.status, calls.of("refund")), (Status::Cancelled, 2));
        assert_eq!(view.uncompensated, []);
    }
}

#[tokio::test]
async fn a_step_whose_undoing_call_is_not_known_holds_up_no_other() {
    let asks = {
        let (place, calls) = (Place::memory(), Calls::default());
        let engine = engine(&place.store, &calls, &Stage::new(0)).await;
        engine.start::<lend_and_weigh>(()).id("weighed").await.unwrap();
        consent(&engine).await;
        Journal::read(&place.store, "weighed").await.through("approval_requested", "take_car_back")
    };
    let edited = with_created(&asks, |created| created.fingerprint = "f".repeat(64));
    for journal in [asks, edited] {
        let (place, calls, stage) = (Place::sqlite(), Calls::default(), Stage::new(0));
        journal.plant(&place.store, Rows::Follow).await;
        let client = builder(&place.store, &calls).client().start().await.unwrap();
        let report = client.check(RunFilter::new()).await.unwrap();
        assert!(report.is_clean(), "{report}");
        client.shutdown().await.unwrap();
        let engine = engine(&place.store, &calls, &stage).await;
        let asked = &engine.pending(&run_id("weighed")).await.unwrap()[0];
        engine.approve(&run_id("weighed"), &asked.command, "ann").await.unwrap();
        called(&calls, "take_car_back", 1).await;
        let view = ended(&engine, "weighed").await;
        let left: Vec<_> = view.uncompensated.iter().map(|left| left.step.to_string()).collect();
        assert_eq!((view.status, left), (Status::Failed, vec!["1:weigh".to_owned()]));
        assert_eq!((calls.of("take_car_back"), calls.of("unweigh")), (1, 0));
    }
}
