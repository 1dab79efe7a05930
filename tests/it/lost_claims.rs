//! Claims whose answers are lost, and claims that are given twice.

use std::sync::Arc;
use std::time::Duration;

use aether::id::RunId;
use aether::prelude::*;
use aether::store::Store;
use aether::store::memory::MemoryStore;
use aether_testing::failing::FailingStore;
use tokio::sync::Semaphore;

use crate::seeds::kit::{Calls, in_time};

const HOUR: Duration = Duration::from_secs(3_600);

/// Waits for a word.
#[workflow]
async fn hears(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal("word").await?)
}

/// Ask somebody who takes long.
#[step(effect = "tool")]
async fn ask(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    let asked = cx.dep::<Arc<Semaphore>>()?;
    asked.acquire().await?.forget();
    Ok(7)
}

/// Waits for a word, and asks.
#[workflow]
async fn hears_and_asks(cx: &mut Cx) -> Result<u32> {
    let heard: u32 = cx.signal("word").await?;
    Ok(heard + ask(cx).await?)
}

/// An engine that claims only what it is woken for.
async fn begin(answers: &Arc<Semaphore>, calls: &Calls) -> (Arc<FailingStore>, Engine) {
    let store = Arc::new(FailingStore::new(Arc::new(MemoryStore::new())));
    let engine = Engine::builder().store(Arc::clone(&store) as Arc<dyn Store>);
    let engine = engine.poll_interval(HOUR).lease(HOUR).eviction_grace(Duration::ZERO);
    (store, engine.provide(Arc::clone(answers)).provide(calls.clone()).start().await.unwrap())
}

async fn until_evicted(engine: &Engine, run: &RunId) {
    in_time(async {
        while engine.store().run(run).await.unwrap().unwrap().owner.is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn who_claims_one_run_and_is_given_another_advances_that_and_has_not_claimed_the_one() {
    let (store, engine) = begin(&Arc::new(Semaphore::new(0)), &Calls::default()).await;
    let lost = engine.start::<hears>(()).id("lost").await.unwrap();
    let other = engine.start::<hears>(()).id("other").await.unwrap();
    until_evicted(&engine, lost.id()).await;
    engine.signal(other.id(), "word", "1", &1).await.unwrap();
    in_time(other.result()).await.unwrap();
    store.next_claims_are_lost(1);
    engine.signal(lost.id(), "word", "1", &1).await.unwrap();
    in_time(async {
        while store.run(lost.id()).await.unwrap().unwrap().owner.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(!other.advance().await.unwrap(), "it has ended");
    assert_eq!(in_time(lost.result()).await.unwrap(), 1);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_claim_that_is_given_twice_is_advanced_once() {
    let (answers, calls) = (Arc::new(Semaphore::new(0)), Calls::default());
    let (store, engine) = begin(&answers, &calls).await;
    let twice = engine.start::<hears_and_asks>(()).id("twice").await.unwrap();
    let other = engine.start::<hears>(()).id("other").await.unwrap();
    until_evicted(&engine, twice.id()).await;
    until_evicted(&engine, other.id()).await;
    store.next_claims_are_repeated(1);
    engine.signal(twice.id(), "word", "1", &1).await.unwrap();
    in_time(async {
        while calls.of("ask") == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    engine.signal(other.id(), "word", "1", &5).await.unwrap();
    assert_eq!(in_time(other.result()).await.unwrap(), 5, "its claim gave the other one once more");
    tokio::time::sleep(Duration::from_millis(50)).await;
    answers.add_permits(1);
    assert_eq!(in_time(twice.result()).await.unwrap(), 8);
    assert_eq!(calls.of("ask"), 1);
    engine.shutdown().await.unwrap();
}
