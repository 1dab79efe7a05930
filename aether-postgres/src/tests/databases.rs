//! Stores of two databases, one of which is away, or fails.

use std::time::Duration;

use aether_core::store::{Store as _, StoreError};
use aether_pg_tests::Cluster;

use super::proxy::Proxy;
use super::{LEASE, Table, names, options, request, run_id, worker};
use crate::store::PostgresStore;

/// Also on a slow machine.
const SOON: Duration = Duration::from_secs(60);

async fn store(first: &str, second: &str, patience: Duration) -> PostgresStore {
    PostgresStore::connect_all_with(
        [("a", first), ("b", second)],
        options().patience(patience).connections(1),
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_worker_retires_and_a_store_closes_in_every_database() {
    let (first, second) = (Table::lay().await, Table::lay().await);
    let store = store(&first.url, &second.url, Duration::from_secs(1)).await;
    let me = worker("me");
    assert!(store.register(&me, LEASE, Vec::new()).await.unwrap());
    first.client.batch_execute("ALTER TABLE workers RENAME TO away").await.unwrap();
    assert!(matches!(store.retire(&me).await, Err(StoreError::Unavailable { .. })));
    assert_eq!(second.number("SELECT count(*) FROM workers").await, 0, "there it is not known any more");
    super::writer::create(&store.shared.all()[0].clone(), "a").await;
    first.client.batch_execute("ALTER TABLE journal RENAME TO gone").await.unwrap();
    let database = store.shared.all()[0].clone();
    let stuck = tokio::spawn(async move { super::writer::write(&database, "a", 1, |_| {}).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let closed = tokio::time::timeout(SOON, store.close()).await.unwrap();
    assert!(closed.is_err(), "something could not be written");
    stuck.await.unwrap().unwrap_err();
    assert!(store.shared.all().iter().all(|database| database.is_closed()));
}

#[tokio::test]
async fn a_lost_claim_is_found_while_another_database_is_away() {
    let (first, second) = (Table::lay().await, Table::lay().await);
    let proxies =
        [Proxy::before(Cluster::shared().port()).await, Proxy::before(Cluster::shared().port()).await];
    let url = |number: usize, table: &Table| proxies[number].url(table.url.rsplit('/').next().unwrap());
    let store = store(&url(0, &first), &url(1, &second), Duration::ZERO).await;
    let here = store.shared.all()[0].clone();
    first.run("run", None, 1).await;
    here.claim(&request("w", 0)).await.unwrap();
    proxies[0].lose_after(1, 1);
    here.claim(&request("w", 5)).await.unwrap_err();
    assert_eq!(first.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 1);
    proxies[1].hold(true);
    proxies[1].cut();
    let found = tokio::time::timeout(SOON, here.claim(&request("w", 5))).await.unwrap();
    assert_eq!(names(&found.unwrap()), ["run"]);
}

/// A worker that was not told of the target would lose there what it holds.
#[tokio::test]
async fn a_worker_that_comes_before_the_lock_keeps_its_runs_from_being_moved() {
    let (first, second) = (Table::lay().await, Table::lay().await);
    let store = std::sync::Arc::new(store(&first.url, &second.url, Duration::from_secs(60)).await);
    first.run("run", None, 1).await;
    let bucket = u16::try_from(crate::shard::shard("run")).unwrap();
    let claim = first.begin().await;
    let held = "INSERT INTO workers(id, renewals, lease) VALUES ('old', 5, 1000000);
        UPDATE runs SET owner = 'old' WHERE id = 'run'";
    claim.batch_execute(held).await.unwrap();
    let moving = store.clone();
    let moved = tokio::spawn(async move { moving.move_buckets(bucket..bucket + 1, "b").await });
    first.until_blocked(1).await;
    claim.batch_execute("COMMIT").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(second.number("SELECT count(*) FROM runs").await, 0, "it is the worker's");
    assert!(!moved.is_finished());
    let told = "INSERT INTO workers(id, renewals, lease) VALUES ('old', 5, 1000000)";
    second.client.batch_execute(told).await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, moved).await.unwrap().unwrap(), Ok(1));
    let record = store.run(&run_id("run")).await.unwrap().unwrap();
    assert_eq!(record.owner, Some(worker("old")));
}
