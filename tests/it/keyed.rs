//! Starts under keys and ids: what was answered begins once, whatever became of the id meanwhile.

use std::sync::Arc;
use std::time::Duration;

use aether::engine::EngineBuilder;
use aether::error::StartError;
use aether::prelude::*;
use aether::store::memory::MemoryStore;
use aether::store::{RunFilter, RunRecord, Store};
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
