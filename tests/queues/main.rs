//! Queues with several workers: what each of them serves (`lanes`), and a storm.
//!
//! The storm: worker processes are killed, paused past their leases and shut down at any moment, limits change
//! all the time, and no limit is exceeded, no slot leaked, no run lost.
//!
//! Two checkers know nothing of the store's code. A watcher counts slots in the store's tables, in one snapshot with the
//! limits. A judge reads what bodies wrote when they began and ended, and computes how many runs worked at the same time.
//!
//! In a normal test run a storm takes a few seconds for each store. `AETHER_QUEUE_STORM=<seconds>` takes as long as it says;
//! `AETHER_QUEUE_STORM_SEED` draws the same storm again, as far as processes let themselves be repeated.

#![allow(clippy::unwrap_used, clippy::expect_used)]

aether::allow_missing_deps!("each test runs a few of the workflows that are linked here");

mod judge;
mod lanes;
mod limits;
mod log;
mod storm;
mod watcher;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether_pg_tests::Cluster;
use aether_postgres::{PostgresOptions, PostgresStore};

/// The time after which a silent worker's runs may be taken over.
pub(crate) const LEASE: Duration = Duration::from_millis(800);

/// Opens a file, or connects to a server.
pub(crate) async fn open(address: &str) -> Arc<dyn Store> {
    if address.starts_with("postgres:") {
        let options = PostgresOptions::new().connections(3);
        Arc::new(PostgresStore::connect_with(address, options).await.unwrap())
    } else {
        let file = address.to_owned();
        Arc::new(tokio::task::spawn_blocking(|| SqliteStore::open(file).unwrap()).await.unwrap())
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().unwrap())
}

async fn storm(folder: &Path, address: String) {
    let seed = number("AETHER_QUEUE_STORM_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    let time = Duration::from_secs(number("AETHER_QUEUE_STORM").unwrap_or(7));
    println!("{address}: {time:?}, AETHER_QUEUE_STORM_SEED={seed}");
    storm::Storm::begin(folder, address, seed).await.rage(time).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_is_exceeded_and_no_slot_leaks_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db").display().to_string();
    storm(folder.path(), file).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_is_exceeded_and_no_slot_leaks_on_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let database = Cluster::shared().database().await;
    storm(folder.path(), database.url()).await;
}
