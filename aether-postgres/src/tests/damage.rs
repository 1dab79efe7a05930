//! What one row that cannot be read costs the others: nothing.

use std::sync::Arc;
use std::time::Duration;

use aether_core::store::StoreError;
use aether_pg_tests::Cluster;

use super::proxy::Proxy;
use super::queues::queued;
use super::{Table, names, options, request, run_id};
use crate::database::Database;

#[tokio::test]
async fn a_damaged_run_keeps_no_other_one_from_being_claimed() {
    for is_queued in [false, true] {
        let table = Table::lay().await;
        for (name, wake_at) in [("a", 1), ("bad", 2), ("c", 3)] {
            if is_queued {
                Arc::clone(&table.database).create(queued(name, "k"), Vec::new()).await.unwrap();
            } else {
                table.run(name, None, wake_at).await;
            }
        }
        table.client.batch_execute("UPDATE runs SET labels = '{' WHERE id = 'bad'").await.unwrap();
        let leases = table.database.claim(&request("w", 100)).await.unwrap();
        assert_eq!(names(&leases), ["a", "c"], "queued: {is_queued}");
        let owned = table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await;
        assert_eq!(owned, 2, "nobody holds what nobody advances");
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(names(&table.database.claim(&request("w", 101)).await.unwrap()), [""; 0], "not at once");
        assert_eq!(table.number("SELECT epoch FROM runs WHERE id = 'bad'").await, 1, "nor by anybody");
        table.client.batch_execute("UPDATE runs SET labels = '{}' WHERE id = 'bad'").await.unwrap();
        let healed = table.database.claim(&request("w", 4_000)).await.unwrap();
        assert_eq!(names(&healed), ["bad"], "queued: {is_queued}");
    }
}

/// What a claim got whose answer was lost may hold a damaged run as well.
#[tokio::test]
async fn a_damaged_run_keeps_no_other_one_from_being_found() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = options().patience(Duration::ZERO).connections(1);
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), far).await.unwrap();
    table.run("bad", None, 1).await;
    table.run("run", None, 2).await;
    table.client.batch_execute("UPDATE runs SET labels = '{' WHERE id = 'bad'").await.unwrap();
    far.claim(&request("w", 0)).await.unwrap();
    proxy.lose_after(1, 1);
    far.claim(&request("w", 5)).await.unwrap_err();
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 2);
    assert_eq!(names(&far.claim(&request("w", 5)).await.unwrap()), ["run"]);
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 1);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(names(&far.claim(&request("w", 5)).await.unwrap()), [""; 0], "each is in one answer");
}

/// Who asks for one run is told that it cannot be read.
#[tokio::test]
async fn a_claim_of_a_damaged_run_alone_says_so() {
    let table = Table::lay().await;
    table.run("bad", None, 1).await;
    table.client.batch_execute("UPDATE runs SET labels = '{' WHERE id = 'bad'").await.unwrap();
    let only = aether_core::store::ClaimRequest { only: Some(run_id("bad")), ..request("w", 5) };
    let refused = table.database.claim(&only).await;
    assert!(matches!(refused, Err(StoreError::Corrupt { .. })), "{refused:?}");
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w'").await, 0);
}
