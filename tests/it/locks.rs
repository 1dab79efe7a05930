//! A store that another process holds for a while, and a store that several engines of one process share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::sqlite::{SqliteOptions, SqliteStore};
use aether::store::{Store, StoreError};
use aether_testing::failing::FailingStore;
use tempfile::TempDir;

use super::seeds::kit::{self, Calls, Place, builder, in_time, run_id};

#[step(effect = "tool")]
async fn count(cx: &mut StepCx, n: u32) -> Result<u32> {
    let _ = cx;
    Ok(n + 1)
}

#[workflow]
async fn counting(cx: &mut Cx, n: u32) -> Result<u32> {
    let n = count(cx, n).await?;
    cx.signal::<()>("go").await?;
    Ok(count(cx, n).await?)
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    (folder, path)
}

/// Short waits inside SQLite, many of them.
fn options(patience: Duration) -> SqliteOptions {
    let busy_timeout = Duration::from_millis(20);
    SqliteOptions { busy_timeout, lock_patience: patience, ..SqliteOptions::default() }
}

async fn until_waiting(engine: &Engine, run: &RunHandle<counting>) {
    in_time(async {
        while !engine.view(run.id()).await.unwrap().steps.iter().any(|step| step.command.name() == "signal") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_lock_of_another_process_is_outlasted() {
    let (_folder, path) = place();
    let store = Arc::new(SqliteStore::open_with(&path, options(Duration::from_secs(60))).unwrap());
    let engine = Engine::builder().store(store).start().await.unwrap();
    let run = engine.start::<counting>(1).await.unwrap();
    until_waiting(&engine, &run).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let signal = tokio::spawn({
        let (engine, id) = (engine.clone(), run.id().clone());
        async move { engine.signal(&id, "go", "1", &()).await }
    });
    // Far longer than SQLite waits by itself.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!signal.is_finished(), "nothing is given up");
    other.execute_batch("COMMIT").unwrap();
    in_time(signal).await.unwrap().unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 3);
}

#[tokio::test]
async fn a_handle_waits_through_a_store_that_is_locked_for_too_long() {
    let (_folder, path) = place();
    let locked = StoreError::Locked { store: "test".into(), reason: "somebody writes".into() };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let store = Arc::new(FailingStore::new(store).append_fails(2, locked));
    let engine = Engine::builder().store(store).start().await.unwrap();
    let run = engine.start::<counting>(1).id("r").await.unwrap();
    let end = tokio::spawn({
        let run = engine.handle::<counting>("r").await.unwrap();
        async move { run.end().await }
    });
    in_time(async {
        while engine.store().run(run.id()).await.unwrap().unwrap().owner.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while !run.advance().await.unwrap() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    engine.signal(run.id(), "go", "1", &()).await.unwrap();
    let end = in_time(end).await.unwrap().unwrap();
    // The first tool call was cut off before its outcome was recorded, or before it was made.
    assert!(!matches!(end, RunEnd::Stopped(_)), "{end:?}");
}

#[tokio::test]
async fn a_handle_waits_through_a_store_that_cannot_be_read_for_a_while() {
    let (_folder, path) = place();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let store = Arc::new(FailingStore::new(store));
    let builder = Engine::builder().store(Arc::clone(&store) as Arc<dyn Store>);
    let poll = Duration::from_millis(10);
    let engine = builder.poll_interval(poll).eviction_grace(Duration::ZERO).start().await.unwrap();
    let run = engine.start::<counting>(1).await.unwrap();
    in_time(async {
        while store.run(run.id()).await.unwrap().unwrap().owner.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let waits = engine.handle::<counting>(run.id().as_str()).await.unwrap();
    let away = StoreError::Unavailable { store: "test".into(), reason: "it is being moved".into() };
    store.next_reads_fail(100, away);
    let end = tokio::spawn(async move { waits.end().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!end.is_finished(), "{:?}", end.await);
    in_time(async {
        while engine.signal(run.id(), "go", "1", &()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let end = in_time(end).await.unwrap().unwrap();
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
}

#[tokio::test]
async fn an_engines_shutdown_leaves_a_shared_store_open() {
    let (_folder, path) = place();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let lease = Duration::from_millis(200);
    let one = Engine::builder().store(Arc::clone(&store)).lease(lease).start().await.unwrap();
    let two = Engine::builder().store(store).lease(lease).start().await.unwrap();
    one.shutdown().await.unwrap();
    let run = two.start::<counting>(1).await.unwrap();
    two.signal(run.id(), "go", "1", &()).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 3);
    let store = Arc::downgrade(two.store());
    two.shutdown().await.unwrap();
    drop(run);
    let closed = async || match store.upgrade() {
        Some(store) => store.runs(aether::store::RunFilter::default()).await.is_err(),
        None => true,
    };
    in_time(async {
        while !closed().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// For longer than the bodies below may take.
const HELD: Duration = Duration::from_millis(2_500);

fn hold_the_file(cx: &StepCx) -> Result<()> {
    let other = Connection::open(&*cx.dep::<PathBuf>()?)?;
    other.execute_batch("BEGIN IMMEDIATE")?;
    std::thread::spawn(move || {
        std::thread::sleep(HELD);
        other.execute_batch("COMMIT").unwrap();
    });
    Ok(())
}

/// Keep two contents while the file is held.
#[step(effect = "tool", timeout = "1s", heartbeat = "900ms")]
async fn file_away(cx: &mut StepCx) -> Result<usize> {
    hold_the_file(cx)?;
    let (one, other) = futures::join!(cx.keep_content(vec![1; 10]), cx.keep_content(vec![2; 10]));
    Ok(one?.len() + other?.len())
}

/// Keep a content while the file is held, and never come back.
#[step(effect = "tool", timeout = "1s")]
async fn file_away_and_hang(cx: &mut StepCx) -> Result<usize> {
    hold_the_file(cx)?;
    cx.keep_content(vec![3; 10]).await?;
    std::future::pending().await
}

#[workflow]
async fn filing(cx: &mut Cx) -> Result<(usize, bool)> {
    let filed = file_away(cx).await?;
    let hung = file_away_and_hang(cx).await;
    Ok((filed, matches!(hung, Err(aether::StepError::InDoubt(_)))))
}

#[tokio::test]
async fn the_time_for_which_a_store_keeps_a_body_waiting_is_not_the_bodys() {
    let (_folder, path) = place();
    let engine = Engine::builder().sqlite(&path).provide(path).start().await.unwrap();
    let run = engine.start::<filing>(()).id("filing").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), (128, true));
    engine.shutdown().await.unwrap();
}

/// Wait for a word.
#[workflow]
async fn waits_beside_a_closed_store(cx: &mut Cx) -> Result<u32> {
    Ok(cx.signal("never").await?)
}

#[tokio::test]
async fn a_handle_is_told_that_its_store_was_closed() {
    // A store in memory stays open.
    for place in [Place::sqlite, Place::postgres] {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<waits_beside_a_closed_store>(()).id("waits").await.unwrap();
        in_time(kit::until_waiting(&run)).await;
        let waiting = tokio::spawn(async move { run.end().await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        engine.store().close().await.unwrap();
        let told = in_time(waiting).await.unwrap();
        assert!(matches!(told, Err(StoreError::Closed { .. })), "{told:?}");
        let again = in_time(engine.store().run(&run_id("waits"))).await;
        assert!(
            matches!(&again, Err(error @ StoreError::Closed { .. }) if !error.is_retryable()),
            "{again:?}"
        );
        let _it_has_no_store = in_time(engine.shutdown()).await;
    }
}
