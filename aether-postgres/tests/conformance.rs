//! The Postgres store keeps every rule of the conformance suite.

#![allow(clippy::unwrap_used, reason = "a test fails with what it saw")]

use std::sync::Arc;

use aether_core::id::{CodeId, CommandId, RunId};
use aether_core::journal::Frame;
use aether_core::journal::event::NodeFinished;
use aether_core::payload::{Digest, Payload};
use aether_core::store::{NewRun, RunFilter, Store as _};
use aether_pg_tests::Cluster;
use aether_postgres::{PostgresOptions, PostgresStore};
use aether_testing::conformance::Fixture;
use jiff::Timestamp;

async fn store(options: PostgresOptions) -> Fixture {
    let cluster = Cluster::shared();
    let prepare = async |url: String| {
        drop(PostgresStore::connect(&url).await.unwrap());
    };
    let database = cluster.database_from("conformance", prepare).await;
    let store = PostgresStore::connect_with(&database.url(), options).await.unwrap();
    Fixture::new(Arc::new(store)).keeping(database)
}

/// A database of version 2 of the tables, which this build has brought up to date.
async fn migrated() -> Fixture {
    let prepare = async |url: String| {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(include_str!("version_2/schema.sql")).await.unwrap();
        client.batch_execute("INSERT INTO aether.schema_version VALUES (1, 2)").await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
        drop(PostgresStore::connect(&url).await.unwrap());
    };
    let database = Cluster::shared().database_from("version_2", prepare).await;
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    Fixture::new(Arc::new(store)).keeping(database)
}

/// A store of two databases, each of which has half of the buckets.
async fn two_databases() -> Fixture {
    let cluster = Cluster::shared();
    // Both are made at once, and copied for each test.
    let prepare = async |first: String| {
        cluster.sql(&["CREATE DATABASE halved_b".into()]).await;
        let store = PostgresStore::connect_all([("a", first), ("b", cluster.url("halved_b"))]).await.unwrap();
        store.rebalance().await.unwrap();
        store.close().await.unwrap();
    };
    let first = cluster.database_from("halved_a", prepare).await;
    let copy = async |_empty: String| {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'halved_%'";
        let statements = [end, "DROP DATABASE half_b", "ALTER DATABASE halved_b RENAME TO half_b"];
        cluster.sql(&statements.map(str::to_owned)).await;
    };
    let second = cluster.database_from("half_b", copy).await;
    let store = PostgresStore::connect_all([("a", first.url()), ("b", second.url())]).await.unwrap();
    Fixture::new(Arc::new(store)).keeping((first, second))
}

aether_testing::store_suite!(postgres, async || store(PostgresOptions::new()).await);
// In two of them, small batches are sent as large ones are.
aether_testing::store_suite!(unprepared, async || store(
    PostgresOptions::new().pooler(true).arrays_only(true)
)
.await);
aether_testing::store_suite!(of_version_2, migrated);
aether_testing::store_suite!(two_writers, async || store(
    PostgresOptions::new().writers(2).arrays_only(true)
)
.await);
aether_testing::store_suite!(databases, two_databases, without queues);

/// A run that nobody holds.
fn run(name: &str) -> NewRun {
    NewRun {
        id: RunId::new(name).unwrap(),
        workflow: "flow".into(),
        version: 1,
        code: CodeId::default(),
        digest: Digest::of(&Payload::null()).unwrap(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: Frame::encode(&[NodeFinished { command: CommandId::new("0", "created") }.into()]).unwrap(),
        at: Timestamp::from_second(1_700_000_000).unwrap(),
        owner: None,
        parent_epoch: None,
        terms: Default::default(),
    }
}

#[tokio::test]
async fn a_damaged_run_hides_no_other_one() {
    let prepare = async |url: String| {
        drop(PostgresStore::connect(&url).await.unwrap());
    };
    let database = Cluster::shared().database_from("conformance", prepare).await;
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        store.create(run(name)).await.unwrap();
    }
    let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("UPDATE aether.runs SET status = 99 WHERE id IN ('d', 'b')").await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    let listed = async |filter: RunFilter| {
        let runs = store.runs(filter).await.unwrap();
        runs.into_iter().map(|run| run.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(RunFilter::new()).await, ["e", "c", "a"]);
    assert_eq!(listed(RunFilter::new().limit(2)).await, ["e", "c"]);
    for (limit, names) in [(0, &["d", "b"][..]), (1, &[]), (2, &["d"])] {
        let damaged = store.damaged_runs(RunFilter::new().limit(limit)).await.unwrap();
        assert_eq!(damaged.iter().map(|run| &*run.id).collect::<Vec<_>>(), names);
    }
    assert!(store.run(&RunId::new("d").unwrap()).await.is_err());
}
