//! Starts under keys and ids: what was answered begins once, whatever became of the id meanwhile.

use std::sync::Arc;
use std::time::Duration;

use aether::effect::Payload;
use aether::engine::EngineBuilder;
use aether::error::{RunError, StartError};
use aether::id::RunId;
use aether::prelude::*;
use aether::queue::{Limit, LimitKind, Singleton};
use aether::store::memory::MemoryStore;
use aether::store::{KeyedStart, RunFilter, RunRecord, Store};
use aether::view::Status;
use tokio::time::sleep;

use crate::seeds::kit::in_time;

const HOUR: Duration = Duration::from_secs(3_600);

/// Add up what was gathered.
#[workflow]
async fn keyed_sum(_cx: &mut Cx, numbers: Vec<u64>) -> Result<u64> {
    Ok(numbers.iter().sum())
}

/// Say what was gathered last.
#[workflow]
async fn keyed_word(_cx: &mut Cx, word: String) -> Result<String> {
    Ok(word)
}

/// Wait for a number.
#[workflow]
async fn keyed_wait(cx: &mut Cx) -> Result<u64> {
    Ok(cx.signal::<u64>("go").await?)
}

fn builder(store: &Arc<dyn Store>) -> EngineBuilder {
    Engine::builder().store(Arc::clone(store)).poll_interval(Duration::from_millis(10))
}

/// Waits until as many runs are there as are wanted.
async fn runs(engine: &Engine, filter: RunFilter, wanted: usize) -> Vec<RunRecord> {
    in_time(async {
        loop {
            let found = engine.runs(filter.clone()).await.unwrap();
            if found.len() >= wanted {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn an_id_that_a_batch_has_gathers_no_other_one() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let add = |no: u64, id: &str| engine.start::<keyed_sum>(vec![no]).id(id).collect("k", 2, HOUR);
    add(1, "d-1").await.unwrap();
    let batch = add(2, "d-2").await.unwrap();
    assert_eq!((batch.id().as_str(), in_time(batch.result()).await.unwrap()), ("d-1", 3));
    // It is delivered again: that batch has it.
    let again = add(1, "d-1").await.unwrap();
    assert_eq!((again.id().as_str(), in_time(again.result()).await.unwrap()), ("d-1", 3));
    let refused = add(9, "d-1").await;
    assert!(matches!(&refused, Err(StartError::IdTaken { run, .. }) if run.as_str() == "d-1"), "{refused:?}");
    // What comes next is no part of it.
    let next = add(3, "d-3").await.unwrap();
    let refused = add(9, "d-1").await;
    assert!(matches!(refused, Err(StartError::IdTaken { .. })), "{refused:?}");
    add(4, "d-4").await.unwrap();
    assert_eq!((next.id().as_str(), in_time(next.result()).await.unwrap()), ("d-3", 7));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_gathered_under_an_id_that_is_taken_begins_all_the_same() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let add = |no: u64, id: &str| engine.start::<keyed_sum>(vec![no]).id(id).collect("k", 2, HOUR);
    add(1, "e-1").await.unwrap();
    let other = engine.start::<keyed_sum>(vec![7]).id("e-1").await.unwrap();
    assert_eq!(in_time(other.result()).await.unwrap(), 7);
    add(2, "e-2").await.unwrap();
    let found = runs(&engine, RunFilter::new(), 2).await;
    let batch = found.iter().find(|run| run.terms.inputs == 2).unwrap();
    let batch = engine.handle::<keyed_sum>(batch.id.as_str()).await.unwrap();
    assert_eq!(in_time(batch.result()).await.unwrap(), 3);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(runs(&engine, RunFilter::new(), 2).await.len(), 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_input_that_came_late_under_a_used_id_is_refused() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let soon = Duration::from_millis(20);
    let say = |word: &str| engine.start::<keyed_word>(word.into()).id("w").debounce("k", soon, HOUR);
    assert_eq!(in_time(say("a").await.unwrap().result()).await.unwrap(), "a");
    assert_eq!(in_time(say("a").await.unwrap().result()).await.unwrap(), "a");
    let refused = say("b").await;
    assert!(matches!(refused, Err(StartError::IdTaken { .. })), "{refused:?}");
    assert_eq!(runs(&engine, RunFilter::new(), 1).await.len(), 1);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_replacement_that_is_refused_leaves_the_run_its_key() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    engine.limits().set(Limit::new("q/*", LimitKind::Open(1)).unwrap()).await.unwrap();
    let start = |otherwise| engine.start::<keyed_wait>(()).queue("q").key("acme").once_per("k", otherwise);
    let first = start(Singleton::Reject).await.unwrap();
    for _ in 0..2 {
        let refused = start(Singleton::Replace).await;
        assert!(matches!(refused, Err(StartError::OverLimit { open: 1, .. })), "{refused:?}");
        assert_eq!(start(Singleton::Join).await.unwrap().id(), first.id());
        let held = start(Singleton::Reject).await;
        assert!(matches!(&held, Err(StartError::Held { run, .. }) if run == first.id()), "{held:?}");
    }
    engine.signal(first.id(), "go", "s", &5_u64).await.unwrap();
    assert_eq!(in_time(first.result()).await.unwrap(), 5);
    let second = start(Singleton::Replace).await.unwrap();
    // With room for both, one replaces the other.
    engine.limits().set(Limit::new("q/*", LimitKind::Open(2)).unwrap()).await.unwrap();
    let third = start(Singleton::Replace).await.unwrap();
    assert!(matches!(in_time(second.result()).await, Err(RunError::Cancelled { .. })));
    assert_ne!(third.status().await.unwrap(), Status::Cancelled);
    engine.shutdown().await.unwrap();
}

/// The record of a key as a process leaves it that dies between the creation of `run` and what follows.
async fn cut_off(store: &Arc<dyn Store>, due_at: jiff::Timestamp, run: &RunId, replaces: &RunId) {
    let held = store.keyed_start("once:keyed_wait:k").await.unwrap().unwrap();
    let mut record: serde_json::Value = serde_json::from_str(held.record.as_str()).unwrap();
    assert_eq!(record["run"], replaces.as_str());
    for (member, value) in [("stage", "decided"), ("run", run.as_str()), ("replaces", replaces.as_str())] {
        record[member] = value.into();
    }
    let record = Payload::from_text(record.to_string()).unwrap();
    let next = KeyedStart { record, due_at, revision: held.revision + 1, ..held.clone() };
    assert!(store.put_keyed_start(next, held.revision).await.unwrap());
}

#[tokio::test]
async fn a_run_is_replaced_whoever_completes_the_start() {
    for who in ["a worker", "one that joins", "one that replaces"] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = builder(&store).start().await.unwrap();
        let start = |otherwise| engine.start::<keyed_wait>(()).once_per("k", otherwise);
        let first = start(Singleton::Reject).await.unwrap();
        let second = engine.start::<keyed_wait>(()).await.unwrap();
        let due_at = jiff::Timestamp::now() + if who == "a worker" { Duration::ZERO } else { HOUR };
        cut_off(&store, due_at, second.id(), first.id()).await;
        let last = match who {
            "a worker" => second,
            "one that joins" => start(Singleton::Join).await.unwrap(),
            _ => {
                let third = start(Singleton::Replace).await.unwrap();
                assert!(matches!(in_time(second.result()).await, Err(RunError::Cancelled { .. })));
                third
            }
        };
        assert!(matches!(in_time(first.result()).await, Err(RunError::Cancelled { .. })), "{who}");
        engine.signal(last.id(), "go", "s", &1_u64).await.unwrap();
        assert_eq!(in_time(last.result()).await.unwrap(), 1);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_repeated_start_that_has_ended_replaces_nothing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder(&store).start().await.unwrap();
    let start = |id: &str| engine.start::<keyed_wait>(()).id(id).once_per("k", Singleton::Replace);
    let first = start("a").await.unwrap();
    engine.signal(first.id(), "go", "s", &1_u64).await.unwrap();
    in_time(first.result()).await.unwrap();
    let second = start("b").await.unwrap();
    assert_eq!(in_time(start("a").await.unwrap().result()).await.unwrap(), 1);
    assert_eq!(start("b").await.unwrap().id(), second.id());
    engine.signal(second.id(), "go", "s", &2_u64).await.unwrap();
    assert_eq!(in_time(second.result()).await.unwrap(), 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn starts_that_cannot_be_completed_hide_no_others() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // More than are read at a time.
    for no in 0..300 {
        let start = KeyedStart {
            name: format!("debounce:keyed_word:{no}"),
            workflow: "keyed_word".into(),
            due_at: jiff::Timestamp::UNIX_EPOCH,
            record: Payload::encode(&"of a build that is to come").unwrap(),
            revision: 1,
        };
        assert!(store.put_keyed_start(start, 0).await.unwrap());
    }
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<keyed_word>("a".into()).debounce("k", Duration::from_millis(20), HOUR).await;
    assert_eq!(in_time(run.unwrap().result()).await.unwrap(), "a");
    engine.shutdown().await.unwrap();
}
