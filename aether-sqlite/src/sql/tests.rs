//! A body whose SQL finds the disk full.

#![allow(clippy::unwrap_used, reason = "a broken promise panics with what it saw")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether_core::id::IdempotencyKey;
use aether_core::journal::Frame;
use aether_core::store::{Append, Rollback, Store, StoreError, Work};

use super::*;
use crate::{SqliteOptions, SqliteStore};
use kit::{append, frame, id, new_run, queue};

#[path = "../../tests/kit/mod.rs"]
mod kit;

/// Writes `bytes`, and looks away from errors if it `swallows` them.
#[derive(Debug)]
struct Writes {
    key: IdempotencyKey,
    bytes: i64,
    swallows: bool,
    kept: bool,
    calls: Arc<AtomicU32>,
}

impl Work for Writes {
    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn call(&mut self) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let conn = connection_for(&self.key).unwrap();
        let sql = Sql { conn: &conn };
        let large = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT ?1)
                     INSERT INTO notes SELECT zeroblob(1000) FROM n";
        let written = sql.execute("INSERT INTO notes VALUES('first')", []);
        let written = written.and(sql.execute(large, [self.bytes / 1_000]));
        // A statement behind the one that failed is outside of the transaction, if that is gone.
        let _goes_on = self.swallows.then(|| sql.execute("INSERT INTO notes VALUES('last')", []));
        self.kept = self.swallows || written.is_ok();
        self.kept
    }

    fn frame(&mut self, undone: Option<Rollback>) -> Result<Frame, StoreError> {
        Ok(frame(if self.kept && undone.is_none() { "worked" } else { "failed" }))
    }
}

#[tokio::test]
async fn a_step_whose_sql_finds_the_disk_full_waits_for_room_and_is_begun_again() {
    for swallows in [false, true] {
        // What fits into the cache, and what spills from it.
        for bytes in [300_000, 12_000_000] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("agent.db");
            let store = SqliteStore::open(&path).unwrap();
            store.create(new_run("a")).await.unwrap();
            store.close().await.unwrap();
            let conn = Connection::open(&path).unwrap();
            conn.busy_timeout(Duration::from_secs(10)).unwrap();
            let ballast =
                "CREATE TABLE notes(text); CREATE TABLE ballast AS SELECT zeroblob(20000000) AS bytes";
            conn.execute_batch(ballast).unwrap();
            let pages: u32 = conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
            let options = SqliteOptions { max_pages: Some(pages + 20), ..SqliteOptions::default() };
            let store = SqliteStore::open_with(&path, options).unwrap();
            let key = IdempotencyKey::new(&id("a"), &CommandId::new("0", "note"), 0);
            let calls = Arc::new(AtomicU32::new(0));
            let work = Box::new(Writes { key, bytes, swallows, kept: false, calls: Arc::clone(&calls) });
            let mut step =
                queue(&store, Append { work: Some(work), ..append("a", 1, 1, frame("only counted")) });
            while calls.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let waits = tokio::time::timeout(Duration::from_millis(200), &mut step).await;
            assert!(waits.is_err(), "it waits for room: {waits:?}");
            let before = calls.load(Ordering::SeqCst);
            conn.execute_batch("DROP TABLE ballast").unwrap();
            step.await.unwrap().unwrap();
            assert!(calls.load(Ordering::SeqCst) > before, "and again");
            let rows: i64 = conn.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 1 + bytes / 1_000 + i64::from(swallows), "once, and whole");
            let frames = store.load(&id("a"), 0).await.unwrap();
            assert_eq!(frames[1].text, frame("worked").text, "no failure is recorded");
            store.close().await.unwrap();
        }
    }
}

/// Drops a table that it reads, which SQLite says is locked: what the body does itself waits for nothing.
#[derive(Debug)]
struct Stumbles(IdempotencyKey);

impl Work for Stumbles {
    fn key(&self) -> &IdempotencyKey {
        &self.0
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn call(&mut self) -> bool {
        let conn = connection_for(&self.0).unwrap();
        let sql = Sql { conn: &conn };
        let mut reads = sql.prepare("SELECT 1 FROM notes UNION ALL SELECT 2").unwrap();
        let mut rows = reads.query([]).unwrap();
        rows.next().unwrap();
        sql.execute_batch("DROP TABLE notes").is_ok()
    }

    fn frame(&mut self, _undone: Option<Rollback>) -> Result<Frame, StoreError> {
        Ok(frame("outcome"))
    }
}

#[tokio::test]
async fn a_step_that_stands_in_its_own_way_is_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("agent.db")).unwrap();
    store.create(new_run("a")).await.unwrap();
    Connection::open(folder.path().join("agent.db"))
        .unwrap()
        .execute_batch("CREATE TABLE notes(text)")
        .unwrap();
    let work = Box::new(Stumbles(IdempotencyKey::new(&id("a"), &CommandId::new("0", "note"), 0)));
    let step = queue(&store, Append { work: Some(work), ..append("a", 1, 1, frame("only counted")) });
    tokio::time::timeout(Duration::from_secs(20), step).await.unwrap().unwrap().unwrap();
    store.close().await.unwrap();
}
