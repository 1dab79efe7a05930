//! Replay and the state machine: rows 1 to 12 of the seeds.

use aether::effect::{Outcome, Payload};
use aether::prelude::*;
use aether::store::Snapshot;
use aether::view::RunView;

use super::chain::{
    already_finished, committed_but_not_finished, completed, in_order, links, recorded, result_of,
    seed_chain, the_commit_fails,
};
use super::kit::{Calls, Journal, Rows, builder, failed, in_time, resume, run_id, stores, stores_at};

#[tokio::test]
async fn s001_after_a_kill_behind_step_k_the_rest_is_called_once() {
    let (whole, links) = (recorded().await, links());
    for killed_after in 0..=links.len() {
        let cut = match killed_after.checked_sub(1) {
            None => whole.first(1),
            Some(last) => whole.through("step_committed", links[last].name),
        };
        for place in stores_at(killed_after) {
            let (place, calls) = (place(), Calls::default());
            cut.plant(&place.store, Rows::Follow).await;
            let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
            assert_eq!(result.unwrap(), result_of(&whole));
            for (at, link) in links.iter().enumerate() {
                let expected = usize::from(at >= killed_after);
                assert_eq!(calls.of(link.body), expected, "{} after a kill behind {killed_after}", link.name);
            }
        }
    }
}

#[tokio::test]
async fn s002_two_folds_of_one_journal_are_equal() {
    let whole = recorded().await;
    for length in 1..=whole.events.len() {
        let prefix = whole.first(length);
        let fold = || RunView::fold(run_id("chain"), prefix.events.iter().cloned());
        let (one, two) = (fold(), fold());
        assert_eq!(one, two);
        assert_eq!((one.completed(), one.status, &one.result), (two.completed(), two.status, &two.result));
        for place in stores_at(length) {
            let place = place();
            prefix.open().plant(&place.store, Rows::Absent).await;
            let read = RunView::load(&*place.store, &run_id("chain")).await.unwrap();
            assert_eq!(read, RunView::fold(run_id("chain"), prefix.open().dated()));
        }
    }
    assert_eq!(completed(&whole).len(), links().len());
}

/// Fail in the way that is asked for.
#[step(effect = "tool")]
async fn fail_as(_cx: &mut StepCx, way: u32) -> Result<()> {
    Err(match way {
        0 => Failure::retryable("busy"),
        1 => Failure::permanent("never"),
        _ => Failure::compensatable("half-way"),
    })
}

/// Fail in three ways, and then do something.
#[workflow]
async fn seed_failures(cx: &mut Cx) -> Result<()> {
    for way in 0..3 {
        fail_as(cx, way).await.ok();
    }
    super::chain::look(cx, 1).await?;
    Ok(())
}

#[tokio::test]
async fn s003_failures_never_enter_the_completed_set() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<seed_failures>(()).id("failures").await.unwrap();
        in_time(run.result()).await.unwrap();
        let view = engine.view(run.id()).await.unwrap();
        let outcomes: Vec<_> = view.steps.iter().filter_map(|step| step.outcome).collect();
        let (retryable, permanent) = (Outcome::RetryableFailure, Outcome::PermanentFailure);
        assert_eq!(outcomes, [retryable, permanent, Outcome::CompensatableFailure, Outcome::Success]);
        let completed: Vec<_> = view.completed().into_iter().map(|command| command.to_string()).collect();
        assert_eq!(completed, ["3:look"]);
    }
}

#[tokio::test]
async fn s004_committed_but_not_finished_is_injected_and_finished_once() {
    committed_but_not_finished(&links()[0]).await;
}

#[tokio::test]
async fn s005_a_finished_step_is_not_called_and_writes_nothing() {
    already_finished(&links()[0]).await;
}

#[tokio::test]
async fn s006_the_injected_value_is_byte_equal() {
    let whole = recorded().await;
    let original: Vec<_> = result_of(&whole).iter().map(|value| value.as_str().to_owned()).collect();
    assert_eq!(original[0], "{\"b\": 1.50,  \"a\":[1e3, \"\\u00e9\", 7]}");
    for place in stores() {
        let place = place();
        whole.open().plant(&place.store, Rows::Follow).await;
        let calls = Calls::default();
        let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
        let injected: Vec<_> = result.unwrap().iter().map(|value| value.as_str().to_owned()).collect();
        assert_eq!((injected, calls.all()), (original.clone(), 0));
    }
}

#[tokio::test]
async fn s007_events_stand_in_order_and_the_body_runs_between_its_own() {
    in_order(&links()[1]).await;
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<seed_chain>(7).id("chain").await.unwrap();
        in_time(run.result()).await.unwrap();
        let (seen, events) = (calls.keys("act saw"), Journal::read(&place.store, "chain").await);
        let started = events.through("tool_invocation_started", "act").events.len();
        assert_eq!(seen, [format!("{:?} {started}", ["node_started", "tool_invocation_started"])]);
    }
}

#[tokio::test]
async fn s008_a_failed_commit_writes_nothing_and_reports_the_stores_error() {
    the_commit_fails(&links()[1]).await;
}

#[tokio::test]
async fn s009_a_failed_end_of_a_step_leaves_the_cursor() {
    // The outcome is there, so that the append that fails holds nothing but the end of the step.
    let whole = recorded().await;
    let cut = whole.through("command_committed", "act");
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        cut.plant(&place.store, Rows::Follow).await;
        let broken = aether::store::StoreError::Full { store: "test".into(), reason: "no room".into() };
        let failing = aether_testing::FailingStore::new(place.store.clone()).appends_fail_from(2, broken);
        let failing: std::sync::Arc<dyn aether::store::Store> = std::sync::Arc::new(failing);
        let (_engine, result) = resume::<seed_chain>(&failing, "chain", &calls).await;
        assert!(matches!(result, Err(aether::error::RunError::Stopped { .. })), "{result:?}");
        let written = cut.events.len() as u64 + 1;
        let record = place.store.run(&run_id("chain")).await.unwrap().unwrap();
        assert_eq!(record.next, written, "one event more: the takeover");
        let after = Journal::read(&place.store, "chain").await;
        assert_eq!(after.count("node_finished", "act") + after.count("step_committed", "act"), 0);
        assert_eq!(calls.of("act"), 0);
    }
}

#[tokio::test]
async fn s010_a_snapshot_is_a_prefix_and_newer_entries_count() {
    let whole = recorded().await;
    for length in 1..whole.events.len() {
        for place in stores_at(length) {
            let (place, prefix) = (place(), whole.first(length));
            whole.open().plant(&place.store, Rows::Absent).await;
            let mut saved = RunView::fold(run_id("chain"), prefix.dated());
            let names: Vec<_> = saved.completed().into_iter().map(|c| c.name().to_owned()).collect();
            assert_eq!(names.into_iter().collect::<std::collections::BTreeSet<_>>(), completed(&prefix));
            // A mark that no event holds shows that the snapshot was read.
            saved.workflow = "marked".into();
            let state = Payload::encode(&saved).unwrap();
            let snapshot = Snapshot { position: saved.position, state };
            place.store.save_snapshot(&run_id("chain"), snapshot).await.unwrap();
            let mut read = RunView::load(&*place.store, &run_id("chain")).await.unwrap();
            assert_eq!(std::mem::take(&mut read.workflow), "marked");
            let mut folded = RunView::fold(run_id("chain"), whole.open().dated());
            folded.workflow.clear();
            assert_eq!(read, folded);
        }
    }
}

/// Look often.
#[workflow]
async fn seed_many(cx: &mut Cx, times: u32) -> Result<u32> {
    for n in 0..times {
        super::chain::look(cx, n).await?;
    }
    Ok(times)
}

#[tokio::test]
async fn s011_without_snapshots_every_outcome_is_the_same() {
    let whole = recorded().await;
    for place in stores() {
        let engine_place = place();
        let engine = builder(&engine_place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<seed_many>(150).id("many").await.unwrap();
        in_time(run.result()).await.unwrap();
        let first = engine.view(run.id()).await.unwrap();
        assert!(
            engine_place.store.snapshot(run.id()).await.unwrap().is_some(),
            "a long fold saves a snapshot"
        );
        let from_snapshot = engine.view(run.id()).await.unwrap();
        engine_place.store.delete_snapshots().await.unwrap();
        assert!(engine_place.store.snapshot(run.id()).await.unwrap().is_none());
        let without = engine.view(run.id()).await.unwrap();
        assert_eq!((&first, &first), (&from_snapshot, &without));
        engine.verify(run.id()).await.unwrap();

        // Recovery, beside a snapshot that claims more than the journal holds.
        let mut results = Vec::new();
        for delete in [false, true] {
            let (place, calls) = (place(), Calls::default());
            whole.through("step_committed", "think").plant(&place.store, Rows::Follow).await;
            let view = RunView::fold(run_id("chain"), whole.events.clone());
            let snapshot = Snapshot { position: view.position, state: Payload::encode(&view).unwrap() };
            place.store.save_snapshot(&run_id("chain"), snapshot).await.unwrap();
            if delete {
                place.store.delete_snapshots().await.unwrap();
            }
            let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
            results.push((result.unwrap(), calls.of("act"), calls.of("call_out")));
        }
        assert_eq!(results, [(result_of(&whole), 0, 1), (result_of(&whole), 0, 1)]);
    }
}

#[tokio::test]
async fn s012_every_class_of_step_passes_rows_4_to_9() {
    for link in &links()[1..] {
        committed_but_not_finished(link).await;
        already_finished(link).await;
        in_order(link).await;
        the_commit_fails(link).await;
    }
    the_commit_fails(&links()[0]).await;
    in_order(&links()[0]).await;
}

/// Fail for good.
#[workflow]
async fn seed_hopeless(cx: &mut Cx) -> Result<()> {
    Ok(fail_as(cx, 1).await?)
}

#[tokio::test]
async fn s006_an_injected_error_is_the_original_error() {
    let whole = Journal::record::<seed_hopeless>("hopeless", ()).await;
    for place in stores() {
        let place = place();
        whole.open().plant(&place.store, Rows::Follow).await;
        let (engine, result) = resume::<seed_hopeless>(&place.store, "hopeless", &Calls::default()).await;
        assert_eq!(failed(result), Failure::permanent("never"));
        let again = Journal::read(&place.store, "hopeless").await;
        assert_eq!(again.facts(), whole.facts());
        drop(engine);
    }
}
