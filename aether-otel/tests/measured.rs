//! What an engine measures of its own work: appends, replays, lost leases, errors of the store.

use std::sync::Arc;
use std::time::Duration;

use aether::prelude::*;
use aether::sqlite::{SqliteOptions, SqliteStore};
use aether::store::{ClaimRequest, MemoryStore, SilentWorker, Store};
use aether_core::id::{RunId, WorkerId};
use aether_core::measures::Measures;
use tempfile::tempdir;

use crate::kit::{LONG, Model, asking, engine, name, order_once};

/// Waits until something was measured.
async fn until(engine: &Engine, is_measured: impl Fn(&Measures) -> bool) {
    let gauge = engine.gauge();
    let measured = async {
        while !is_measured(&gauge.read()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, measured).await.unwrap_or_else(|_| panic!("{:?}", gauge.read()));
}

#[tokio::test]
async fn every_durable_append_is_measured_once_and_a_replay_where_there_is_one() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("a.db");
    let first = engine(&file).await;
    order_once(&first, &name("measured")).await;
    let run = first.start::<asking>("hello".to_owned()).id("asked").await.unwrap();
    while first.pending(run.id()).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    until(&first, |measures| {
        let written = first.store().batches().unwrap();
        measures.appends.count() == written.appends && written.appends >= 20 && written.batches > 1
    })
    .await;
    let measures = first.gauge().read();
    assert_eq!(measures.appends.cumulative().last().unwrap().1, measures.appends.count());
    assert!(measures.appends.sum > Duration::ZERO);
    assert_eq!((measures.replays.count(), measures.replayed_events), (0, 0));
    first.shutdown().await.unwrap();

    let second = engine(&file).await;
    let recorded = second.store().run(run.id()).await.unwrap().unwrap().next;
    run_on(&second, run.id()).await;
    let measures = second.gauge().read();
    assert_eq!((measures.replays.count(), measures.replayed_events), (1, recorded));
    assert!(measures.store_errors.is_empty() && measures.leases_lost == 0, "{measures:?}");
    second.shutdown().await.unwrap();
}

/// Approves what the run waits for, and waits for its end.
async fn run_on(engine: &Engine, run: &RunId) {
    let pending = engine.pending(run).await.unwrap();
    engine.approve(run, &pending[0].command, "ann").await.unwrap();
    engine.handle::<asking>(run.as_str()).await.unwrap().result().await.unwrap();
}

#[tokio::test]
async fn a_run_that_another_worker_takes_is_a_lost_lease_and_no_error_of_the_store() {
    let store = Arc::new(MemoryStore::new());
    let engine =
        Engine::builder().store(Arc::clone(&store) as Arc<dyn Store>).model(Model).eviction_grace(LONG);
    let engine = engine.start().await.unwrap();
    let run = engine.start::<asking>("hello".to_owned()).id("taken").await.unwrap();
    while engine.pending(run.id()).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let owner = store.workers().await.unwrap().remove(0);
    let taken = store
        .claim(ClaimRequest {
            worker: WorkerId::from("other".to_owned()),
            now: jiff::Timestamp::now(),
            silent: vec![SilentWorker { id: owner.id, renewals: owner.renewals }],
            limit: 1,
            codes: Vec::new(),
            only: None,
            adopt: vec![run.id().clone()],
            serves: Default::default(),
            others_first: false,
            lapsed_first: false,
        })
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
    let pending = engine.pending(run.id()).await.unwrap();
    engine.approve(run.id(), &pending[0].command, "ann").await.unwrap();
    until(&engine, |measures| measures.leases_lost > 0).await;
    let measures = engine.gauge().read();
    assert!(measures.leases_lost == 1 && measures.store_errors.is_empty(), "{measures:?}");
}

#[tokio::test]
async fn errors_of_the_store_count_by_kind() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("a.db");
    let busy_timeout = Duration::from_millis(20);
    let options = SqliteOptions { busy_timeout, lock_patience: Duration::ZERO, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open_with(&file, options).unwrap());
    let engine = Engine::builder().store(store as Arc<dyn Store>).model(Model).poll_interval(busy_timeout);
    let engine = engine.start().await.unwrap();
    let other = aether::sqlite::rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    until(&engine, |measures| measures.store_errors.get("locked").is_some_and(|errors| *errors > 1)).await;
    other.execute_batch("COMMIT").unwrap();
    order_once(&engine, &name("unlocked")).await;
    engine.shutdown().await.unwrap();
}
