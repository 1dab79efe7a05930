//! Closing a store while something is read, and reading while the file is checked.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken promise panics with what it saw")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aether_core::store::{Store, StoreError};
use aether_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

use kit::{append, frame, id, new_run, queue};

mod kit;

/// A store with one reader and a run, whose list of unlisted runs has no end.
async fn endless() -> (Arc<SqliteStore>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let options = SqliteOptions { readers: 1, ..SqliteOptions::default() };
    let store = SqliteStore::open_with(&path, options).unwrap();
    store.create(new_run("a")).await.unwrap();
    let endless = "DROP TABLE aether_unlisted;
        CREATE VIEW aether_unlisted(run_no) AS
        WITH RECURSIVE n(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n) SELECT n FROM n";
    Connection::open(&path).unwrap().execute_batch(endless).unwrap();
    (Arc::new(store), folder)
}

const MOMENT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn closing_waits_for_no_endless_read_and_blocks_nothing_else_of_its_thread() {
    let (store, folder) = endless().await;
    let reading = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.unlisted_waits(0).await }
    });
    let ticks = Arc::new(AtomicU64::new(0));
    let ticking = tokio::spawn({
        let ticks = Arc::clone(&ticks);
        async move {
            loop {
                tokio::time::sleep(MOMENT).await;
                ticks.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    tokio::time::sleep(MOMENT).await;
    let written = queue(&store, append("a", 1, 1, frame("event")));
    let (since, before) = (Instant::now(), ticks.load(Ordering::SeqCst));
    let mut closing = store.close();
    assert!(tokio::time::timeout(5 * MOMENT, &mut closing).await.is_err(), "a read is given some time");
    written.await.unwrap().unwrap();
    closing.await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    assert!(ticks.load(Ordering::SeqCst) > before + 10, "others go on meanwhile");
    ticking.abort();
    let read = reading.await.unwrap();
    assert!(matches!(read, Err(StoreError::Closed { .. })), "{read:?}");
    assert!(!folder.path().join("agent.db-wal").exists(), "closing folds the log into the file");
}

#[tokio::test]
async fn a_file_is_checked_beside_its_readers_and_not_by_one_of_them() {
    let (store, _folder) = endless().await;
    let checking = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.damage().await }
    });
    tokio::time::sleep(MOMENT).await;
    let loaded = tokio::time::timeout(Duration::from_secs(30), store.load(&id("a"), 0)).await;
    assert_eq!(loaded.expect("no read waits for the check").unwrap().len(), 1);
    store.close().await.unwrap();
    let checked = checking.await.unwrap();
    assert!(matches!(checked, Err(StoreError::Closed { .. })), "{checked:?}");
    assert!(matches!(store.damage().await, Err(StoreError::Closed { .. })));
}

#[test]
fn a_store_is_closed_and_dropped_without_a_runtime() {
    let folder = tempfile::tempdir().unwrap();
    for close in [true, false] {
        let store = SqliteStore::open(folder.path().join("agent.db")).unwrap();
        if close {
            futures_util::FutureExt::now_or_never(store.close());
        }
        drop(store);
        assert!(!folder.path().join("agent.db-wal").exists());
        let store = SqliteStore::open_read_only(folder.path().join("agent.db")).unwrap();
        drop(store);
    }
}
