//! What an engine does beside its runs: it opens its store, deletes what is old, and ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aether::engine::EngineBuilder;
use aether::error::BuildError;
use aether::prelude::*;
use aether::retention::{PurgeDecision, Retention};
use aether::sqlite::{SqliteOptions, SqliteStore};
use aether::store::{MemoryStore, RunFilter, Store, StoreError};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores, until_waiting};

/// Say a word.
#[workflow]
async fn said(_cx: &mut Cx, word: String) -> Result<String> {
    Ok(word)
}

/// Wait for a word.
#[workflow]
async fn awaited(cx: &mut Cx) -> Result<String> {
    Ok(cx.signal("word").await?)
}

fn version(file: &Path) -> u32 {
    let conn = Connection::open(file).unwrap();
    conn.query_row("SELECT version FROM aether_schema", [], |row| row.get(0)).unwrap()
}

/// As the build before the last migration left it.
fn make_older(file: &Path) {
    let conn = Connection::open(file).unwrap();
    conn.execute_batch("DROP TABLE aether_blob_owners; UPDATE aether_schema SET version = 14").unwrap();
}

#[tokio::test]
async fn a_start_that_may_not_migrate_leaves_an_older_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let prepared = Arc::new(AtomicU32::new(0));
    let engine = |migrate: bool| {
        let prepared = Arc::clone(&prepared);
        let prepare = move |_: &mut Connection| {
            prepared.fetch_add(1, Ordering::SeqCst);
            Ok::<_, rusqlite::Error>(())
        };
        Engine::builder().sqlite(&file).prepare(prepare).client().migrate(migrate).start()
    };
    engine(true).await.unwrap().shutdown().await.unwrap();
    let newest = version(&file);
    make_older(&file);
    let refused = engine(false).await.unwrap_err();
    let BuildError::Store(StoreError::OlderSchema { found, supported, .. }) = refused else {
        panic!("{refused}")
    };
    assert_eq!((found, supported, version(&file)), (14, newest, 14));
    assert_eq!(prepared.load(Ordering::SeqCst), 1, "preparations change what is there, too");
    engine(true).await.unwrap().shutdown().await.unwrap();
    assert_eq!((version(&file), prepared.load(Ordering::SeqCst)), (newest, 2));
    engine(false).await.unwrap().shutdown().await.unwrap();
    assert_eq!(prepared.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_running_build_writes_nothing_into_the_tables_of_a_newer_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let engine =
        Engine::builder().sqlite(&file).poll_interval(Duration::from_millis(10)).start().await.unwrap();
    let run = engine.start::<awaited>(()).id("open").await.unwrap();
    in_time(until_waiting(&run)).await;
    Connection::open(&file).unwrap().execute("UPDATE aether_schema SET version = 99", []).unwrap();
    let refused = engine.start::<said>("new".into()).id("new").await.unwrap_err().to_string();
    assert!(refused.contains("99"), "{refused}");
    let refused = engine.signal(run.id(), "word", "1", &"hello").await.unwrap_err().to_string();
    assert!(refused.contains("99"), "{refused}");
    let _refused_too = engine.shutdown().await;
    let conn = Connection::open(&file).unwrap();
    let of = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!((of("SELECT count(*) FROM aether_runs"), of("SELECT count(*) FROM aether_inbox")), (1, 0));
}

#[tokio::test]
async fn a_shutdown_closes_the_file_that_the_engine_opened_whoever_looks_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let engine = Engine::builder().sqlite(&file).start().await.unwrap();
    let looks = Arc::clone(engine.store());
    in_time(engine.start::<said>("a".into()).id("a").await.unwrap().result()).await.unwrap();
    engine.shutdown().await.unwrap();
    // The file alone has everything.
    let log = folder.path().join("agent.db-wal");
    assert!(std::fs::metadata(&log).map_or(0, |log| log.len()) == 0, "the log was copied into the file");
    assert!(looks.runs(RunFilter::new()).await.is_err());
    drop(looks);

    // An engine on the store of another one: it goes on when the first one ends.
    let first = Engine::builder().sqlite(&file).start().await.unwrap();
    let second = Engine::builder().store(Arc::clone(first.store())).start().await.unwrap();
    first.shutdown().await.unwrap();
    assert_eq!(in_time(second.start::<said>("b".into()).await.unwrap().result()).await.unwrap(), "b");
    second.shutdown().await.unwrap();

    // A store that somebody else holds is theirs.
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file).unwrap());
    Engine::builder().store(Arc::clone(&store)).start().await.unwrap().shutdown().await.unwrap();
    assert_eq!(store.runs(RunFilter::new()).await.unwrap().len(), 2);
}

/// Block a thread.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn block(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    if cx.dep::<Calls>()?.of("block") == 1 {
        std::thread::sleep(Duration::from_secs(12));
    }
    cx.dep::<Calls>()?.add("unblocked", "");
    Ok(())
}

/// Block a thread.
#[workflow]
async fn blocking(cx: &mut Cx) -> Result<()> {
    Ok(block(cx).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_body_that_blocks_its_thread_keeps_its_run_and_no_shutdown_for_ever() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    let builder = || {
        let engine = Engine::builder().sqlite(folder.path().join("agent.db")).provide(calls.clone());
        engine.lease(Duration::from_secs(2)).poll_interval(Duration::from_millis(10))
    };
    let engine = builder().start().await.unwrap();
    let run = engine.start::<blocking>(()).id("blocked").await.unwrap();
    in_time(async {
        while calls.of("block") == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // Another engine looks for runs of workers that are gone.
    let other = builder().start().await.unwrap();
    let began = Instant::now();
    let error = engine.shutdown_within(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("blocks its thread"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(11), "the body is still there");
    drop(run);
    // Its lease is renewed, and its lock is held, for as long as the body stands.
    in_time(async {
        loop {
            let called = calls.of("block");
            if calls.of("unblocked") > 0 {
                break;
            }
            assert_eq!(called, 1, "nobody else calls it meanwhile");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // Then the run is free, and another process's.
    let run = other.handle::<blocking>("blocked").await.unwrap();
    in_time(run.result()).await.unwrap();
    assert_eq!(calls.of("block"), 1, "its outcome was recorded");
    other.shutdown().await.unwrap();
}

fn with_retention(place: &Place, calls: &Calls, retention: Retention) -> EngineBuilder {
    builder(&place.store, calls).retention(retention)
}

#[tokio::test]
async fn nothing_is_deleted_after_a_shutdown_that_came_while_a_hook_was_asked() {
    for place in stores() {
        let place = place();
        let (asked, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let plain = builder(&place.store, &Calls::default()).start().await.unwrap();
        in_time(plain.start::<said>("a".into()).id("a").await.unwrap().result()).await.unwrap();
        plain.shutdown().await.unwrap();
        let hook = {
            let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
            move |_| {
                let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
                async move {
                    asked.add_permits(1);
                    let _let_go = go.acquire().await;
                    PurgeDecision::Delete
                }
            }
        };
        let retention = Retention::new().completed(Duration::ZERO).before_purge(hook);
        let retention = retention.every(Duration::from_millis(10));
        let engine = with_retention(&place, &Calls::default(), retention).start().await.unwrap();
        in_time(asked.acquire()).await.unwrap().forget();
        engine.shutdown().await.unwrap();
        go.add_permits(1000);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(place.again().run(&run_id("a")).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_run_that_took_the_id_of_one_that_was_asked_about_is_kept() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        in_time(engine.start::<said>("old".into()).id("a").await.unwrap().result()).await.unwrap();
        let other = engine.clone();
        let replaced = Retention::new().completed(Duration::ZERO).before_purge(move |run| {
            let other = other.clone();
            async move {
                // Another worker deletes it, and a program starts a run under its id.
                other.store().purge(&run.record().id, None).await.unwrap();
                // So that it is another time on every clock.
                tokio::time::sleep(Duration::from_millis(5)).await;
                in_time(other.start::<said>("new".into()).id("a").await.unwrap().result()).await.unwrap();
                PurgeDecision::Delete
            }
        });
        engine.purge(&replaced).await.unwrap();
        let kept = engine.handle::<said>("a").await.unwrap();
        assert_eq!(in_time(kept.result()).await.unwrap(), "new");
    }
}

#[tokio::test]
async fn an_engine_that_only_looks_is_not_ready_once_it_is_drained() {
    let engine = builder(&Place::memory().store, &Calls::default()).client().start().await.unwrap();
    assert!(engine.health().await.is_ready());
    engine.drain(Duration::ZERO).await.unwrap();
    assert!(!engine.health().await.is_ready());
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn times_that_mean_for_ever_are_taken() {
    const EVER: Duration = Duration::MAX;
    let folder = tempfile::tempdir().unwrap();
    let options =
        SqliteOptions { busy_timeout: EVER, lock_patience: EVER, linger: EVER, ..SqliteOptions::default() };
    let file: Arc<dyn Store> =
        Arc::new(SqliteStore::open_with(folder.path().join("agent.db"), options).unwrap());
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for store in [file, memory] {
        let patient = || {
            let builder = Engine::builder().store(Arc::clone(&store)).lease(EVER).poll_interval(EVER);
            builder.stream_poll_interval(EVER).eviction_grace(EVER).cancel_grace(EVER)
        };
        let engines = [patient().start().await.unwrap(), patient().start().await.unwrap()];
        for (number, engine) in engines.iter().enumerate() {
            let run = engine.start::<waits_a_little>(()).id(format!("r{number}")).await.unwrap();
            engine.signal(run.id(), "word", "1", &7_u32).await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), 7);
        }
        for engine in engines {
            in_time(engine.shutdown()).await.unwrap();
        }
    }
}

/// Waits for a moment, and for a word.
#[workflow]
async fn waits_a_little(cx: &mut Cx) -> Result<u32> {
    cx.sleep(Duration::from_millis(20)).await;
    Ok(cx.signal("word").await?)
}
