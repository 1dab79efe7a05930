//! Databases that are read-only, full, locked, damaged, altered or newer than this build.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aether::engine::EngineBuilder;
use aether::error::{BuildError, Fault, StartError, VerifyError};
use aether::prelude::*;
use aether::retention::Retention;
use aether::sqlite::SqliteStore;
use aether::store::journal::JournalError;
use aether::store::{Store, StoreError};
use aether_sqlite::SqliteOptions;
use rusqlite::Connection;

use super::{bad_fine, bad_fine_step, serves_another, stopped};
use crate::seeds::kit::{Calls, Journal, Rows, builder, in_time, run_id};

fn database() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    (folder, path)
}

async fn refused(path: &Path) -> StoreError {
    match Engine::builder().sqlite(path).start().await {
        Err(BuildError::Store(error)) => error,
        other => panic!("the store should have been refused: {other:?}"),
    }
}

fn on(store: &Arc<dyn Store>) -> EngineBuilder {
    builder(store, &Calls::default())
}

fn patient(path: &Path, options: SqliteOptions) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open_with(path, options).unwrap())
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_refused_at_the_start_and_says_why() {
    let (_folder, path) = database();
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute("UPDATE aether_schema SET version = 99", []).unwrap();
    assert!(matches!(refused(&path).await, StoreError::NewerSchema { found: 99, .. }));

    std::fs::write(&path, "this is a letter to my grandmother, ".repeat(100)).unwrap();
    assert!(matches!(refused(&path).await, StoreError::Corrupt { .. }));

    let (_folder, path) = database();
    drop(SqliteStore::open(&path).unwrap());
    let uri = format!("file:{}?mode=ro", path.display());
    let error = refused(Path::new(&uri)).await;
    assert!(matches!(&error, StoreError::ReadOnly { store, .. } if store.contains("agent.db")), "{error}");

    let (_folder, path) = database();
    drop(SqliteStore::open(&path).unwrap());
    let engine = Engine::builder().sqlite(&path).start().await.unwrap();
    serves_another(&engine).await;
}

/// Lets `bad_make_late` go on.
#[derive(Clone)]
struct Gate(Arc<tokio::sync::Semaphore>);

/// Make a large text when it is time.
#[step(effect = "read")]
async fn bad_make_late(cx: &mut StepCx, size: usize) -> Result<String> {
    let gate = cx.dep::<Gate>()?;
    drop(gate.0.acquire().await?);
    Ok("x".repeat(size))
}

/// Do something small, then keep something large.
#[workflow]
async fn bad_large_late(cx: &mut Cx, size: usize) -> Result<usize> {
    bad_fine_step(cx, 1).await?;
    Ok(bad_make_late(cx, size).await?.len())
}

#[tokio::test]
async fn a_full_database_holds_its_runs_and_loses_nothing() {
    let gate = Gate(Arc::new(tokio::sync::Semaphore::new(0)));
    let (_folder, path) = database();
    let store = patient(&path, SqliteOptions { max_pages: Some(168), ..SqliteOptions::default() });
    let engine = on(&store).provide(gate.clone()).start().await.unwrap();
    let run = engine.start::<bad_large_late>(1 << 20).id("large").await.unwrap();
    // The run, the intent of the first step, and its outcome.
    in_time(async {
        while store.load(&run_id("large"), 0).await.unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    gate.0.add_permits(9);
    // The next value goes to the effect store before its event is appended, and waits there for room.
    tokio::time::timeout(Duration::from_secs(3), run.result()).await.unwrap_err();
    let before = store.load(&run_id("large"), 0).await.unwrap();
    assert!(before.len() > 1, "the first step is in");
    drop(run);
    // Releasing the run may still fit into the pages that are there.
    if let Err(error) = in_time(engine.shutdown_within(Duration::ZERO)).await {
        assert!(matches!(error, StoreError::Full { .. } | StoreError::Unavailable { .. }), "{error}");
    }
    let error = in_time(store.close()).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    drop(store);

    let store = patient(&path, SqliteOptions::default());
    let engine = on(&store).provide(gate.clone()).start().await.unwrap();
    let run = engine.handle::<bad_large_late>("large").await.unwrap();
    // The engine's start may have taken it up already, or have ended it.
    in_time(async {
        while !run.advance().await.unwrap() && !run.status().await.unwrap().is_terminal() {
            tokio::time::sleep(Duration::from_millis(50)).await
        }
    })
    .await;
    assert_eq!(in_time(run.result()).await.unwrap(), 1 << 20);
    assert!(store.load(&run_id("large"), 0).await.unwrap().starts_with(&before));
}

#[tokio::test]
async fn a_locked_database_is_a_retryable_error_and_loses_nothing() {
    let (_folder, path) = database();
    let busy_timeout = Duration::from_millis(60);
    let store = patient(
        &path,
        SqliteOptions { busy_timeout, lock_patience: Duration::ZERO, ..SqliteOptions::default() },
    );
    let engine = on(&store).start().await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = engine.start::<bad_fine>(1).id("locked").await.unwrap_err();
    let StartError::Store(error) = error else { panic!("{error}") };
    assert!(matches!(error, StoreError::Locked { .. }) && error.is_retryable(), "{error}");
    other.execute_batch("COMMIT").unwrap();
    let run = engine.start::<bad_fine>(1).id("locked").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 2);
    serves_another(&engine).await;
}

#[tokio::test]
async fn an_altered_row_stops_its_run_and_no_other() {
    let (_folder, path) = database();
    let store = patient(&path, SqliteOptions::default());
    Journal::record::<bad_fine>("altered", 1).await.open().plant(&store, Rows::Follow).await;
    let conn = Connection::open(&path).unwrap();
    let change = "UPDATE aether_journal SET events = replace(events, 'bad_fine_step', 'bad_evil_step') WHERE position = 2";
    assert_eq!(conn.execute(change, []).unwrap(), 1);
    let engine = on(&store).start().await.unwrap();
    let run = engine.handle::<bad_fine>("altered").await.unwrap();
    let altered = Fault::Journal { run: run_id("altered"), error: JournalError::Altered { position: 2 } };
    assert_eq!(stopped(in_time(run.result()).await), altered);
    assert_eq!(engine.verify(run.id()).await, Err(VerifyError::Fault(altered.clone())));
    assert!(altered.to_string().contains("run `altered`") && altered.to_string().contains("position 2"));
    let kept: i64 = conn.query_row("SELECT count(*) FROM aether_journal", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 7, "nothing is repaired, nothing is removed, nothing is added");
    serves_another(&engine).await;
}

#[tokio::test]
async fn a_damaged_run_that_has_ended_keeps_no_other_from_being_purged() {
    let (_folder, path) = database();
    let store = patient(&path, SqliteOptions::default());
    let engine = on(&store).start().await.unwrap();
    for run in ["damaged", "ended"] {
        let run = engine.start::<bad_fine>(1).id(run).await.unwrap();
        in_time(run.result()).await.unwrap();
    }
    // It is listed among those that have ended, and cannot be deleted.
    let conn = Connection::open(&path).unwrap();
    conn.execute("UPDATE aether_runs SET chain = x'00' WHERE id = 'damaged'", []).unwrap();
    let report = engine.purge(&Retention::new().completed(Duration::ZERO)).await.unwrap();
    assert_eq!((report.deleted, report.kept, report.held), (1, 0, 0));
    assert!(store.run(&run_id("ended")).await.unwrap().is_none());
    assert!(store.run(&run_id("damaged")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_row_of_one_run_does_not_keep_another_from_being_taken_up() {
    let (_folder, path) = database();
    let store = patient(&path, SqliteOptions::default());
    for run in ["damaged", "left"] {
        let journal = Journal::record::<bad_fine>(run, 1).await;
        journal.first(1).plant(&store, Rows::Follow).await;
    }
    let conn = Connection::open(&path).unwrap();
    conn.execute("UPDATE aether_runs SET status = 'dancing' WHERE id = 'damaged'", []).unwrap();
    let engine = on(&store).start().await.unwrap();
    let run = engine.handle::<bad_fine>("left").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 2);
    let error = engine.handle::<bad_fine>("damaged").await.unwrap_err();
    assert!(matches!(&error, StartError::Store(StoreError::Corrupt { .. })), "{error}");
    serves_another(&engine).await;
}
