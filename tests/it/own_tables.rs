//! Tables of the program's own in the engine's file: made before any run is resumed, one process after the other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aether::effect::Payload;
use aether::error::{BuildError, PrepareError};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::sqlite::rusqlite::{self, Connection};
use aether::store::{Message, Sent, Store};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::seeds::kit::{in_time, run_id};

/// Writes to a table that only a newer version of the program has made.
#[step(effect = "transaction")]
async fn ot_book(cx: &mut StepCx) -> Result<i64> {
    Ok(cx.sql(|db| {
        db.execute("INSERT INTO ledger(text) VALUES('booked')", [])?;
        db.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0))
    })?)
}

/// Waits, and then books.
#[workflow]
async fn ot_order(cx: &mut Cx) -> Result<i64> {
    let _go: u32 = cx.signal("go").await?;
    Ok(ot_book(cx).await?)
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    (folder, path)
}

fn number(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Migrations by `user_version`, as libraries for them do it.
fn migrate(conn: &mut Connection) -> rusqlite::Result<i64> {
    const STEPS: [&str; 2] =
        ["CREATE TABLE runs(no INTEGER PRIMARY KEY)", "CREATE TABLE ledger(run REFERENCES runs(no), text)"];
    conn.pragma_update(None, "foreign_keys", true)?;
    let done: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let transaction = conn.transaction()?;
    for step in STEPS.iter().skip(done as usize) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", STEPS.len() as i64)?;
    transaction.commit()?;
    Ok(done)
}

#[tokio::test]
async fn tables_are_there_before_a_run_is_resumed() {
    let (_folder, path) = place();
    // The file is the program's before it is the engine's, with a table of a name that the engine's once had.
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE history(text); PRAGMA user_version = 0")
        .unwrap();
    let engine = Engine::builder().sqlite(&path).start().await.unwrap();
    engine.start::<ot_order>(()).id("order").await.unwrap();
    engine.shutdown().await.unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let (at, payload) = (Timestamp::now(), Payload::from_text("1".into()).unwrap());
    let go = Message { seq: 0, id: "1".into(), topic: "signal:go".into(), payload, at };
    assert_eq!(store.send(&run_id("order"), go).await, Ok(Sent::Delivered), "the run is due");
    store.close().await.unwrap();

    let slowly = |conn: &mut Connection| {
        std::thread::sleep(Duration::from_millis(400));
        migrate(conn)
    };
    let engine = Engine::builder().sqlite(&path).prepare(slowly).start().await.unwrap();
    let run = engine.handle::<ot_order>("order").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    engine.shutdown().await.unwrap();
    let again = Engine::builder().sqlite(&path).prepare(migrate).start().await.unwrap();
    again.shutdown().await.unwrap();
    assert_eq!(number(&path, "PRAGMA user_version"), 2, "the number is the program's");
    assert_eq!(number(&path, "SELECT count(*) FROM ledger"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_that_start_at_once_prepare_one_after_the_other() {
    let (_folder, path) = place();
    // Reads, waits and writes without a transaction: two at a time would lose a count.
    let count = |conn: &mut Connection| {
        conn.execute_batch("CREATE TABLE IF NOT EXISTS starts(n); INSERT INTO starts SELECT 0 WHERE NOT EXISTS(SELECT 1 FROM starts)")?;
        let n: i64 = conn.query_row("SELECT n FROM starts", [], |row| row.get(0))?;
        std::thread::sleep(Duration::from_millis(20));
        conn.execute("UPDATE starts SET n = ?1", [n + 1])
    };
    let starts = (0..10).map(|_| {
        let path = path.clone();
        tokio::spawn(async move {
            let engine = Engine::builder().sqlite(path).prepare(count).start().await.unwrap();
            engine.shutdown().await.unwrap();
        })
    });
    for start in starts.collect::<Vec<_>>() {
        in_time(start).await.unwrap();
    }
    assert_eq!(number(&path, "SELECT n FROM starts"), 10);
}

#[derive(Debug)]
struct UpsideDown;

impl std::fmt::Display for UpsideDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the plan is upside down")
    }
}

impl std::error::Error for UpsideDown {}

async fn fails<T: 'static, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    path: &Path,
    prepare: impl FnOnce(&mut Connection) -> std::result::Result<T, E> + Send + 'static,
) -> PrepareError {
    match Engine::builder().sqlite(path).prepare(prepare).start().await {
        Err(failed @ BuildError::Prepare { .. }) => {
            // Once in the chain of sources, which is how a program shows it.
            let (text, shown) = (failed.to_string(), Failure::from(failed.clone()).to_string());
            let BuildError::Prepare { store, error } = failed else { unreachable!() };
            assert!(store.contains("agent.db"), "{store}");
            let why = error.to_string();
            assert!(!text.contains(&why) && shown.matches(&why).count() == 1, "{shown}");
            error
        }
        other => panic!("the start should have failed: {other:?}"),
    }
}

#[tokio::test]
async fn an_error_of_the_programs_own_is_the_error_of_the_start() {
    let (_folder, path) = place();
    let error = fails(&path, |_| Err::<(), _>(UpsideDown)).await;
    assert!(error.get().is::<UpsideDown>() && error.to_string() == "the plan is upside down", "{error}");
    let error = fails(&path, |db| db.execute_batch("CREATE TABEL x(y)")).await;
    assert!(error.get().is::<rusqlite::Error>() && error.to_string().contains("TABEL"), "{error}");
    let error = fails(&path, |_| -> std::result::Result<(), String> { panic!("a broken plan") }).await;
    assert!(error.to_string().contains("a broken plan"), "{error}");
    let error = fails(&path, |db| db.execute_batch("BEGIN; CREATE TABLE half(x)")).await;
    assert!(error.to_string().contains("left a transaction open"), "{error}");
    assert_eq!(number(&path, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"), 0);
    // A start that failed is no obstacle to the next one, and several preparations run in their order.
    let engine = Engine::builder()
        .sqlite(&path)
        .prepare(|db| db.execute_batch("CREATE TABLE first(x)"))
        .prepare(|db| db.execute("INSERT INTO first VALUES(1)", []))
        .start()
        .await
        .unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_engines_tables_cannot_be_changed_there() {
    let (_folder, path) = place();
    for (sql, why) in [
        ("UPDATE aether_runs SET status = 'failed'", "change `aether_runs`"),
        ("DELETE FROM main.Aether_Journal", "change `aether_journal`"),
        ("DROP TABLE aether_ledger", "change `aether_ledger`"),
        ("DROP VIEW aether_history", "change `aether_history`"),
        ("DROP INDEX aether_runs_due", "change `aether_runs`"),
        ("ALTER TABLE aether_ledger ADD COLUMN mine", "change `aether_ledger`"),
        ("CREATE TRIGGER t AFTER INSERT ON aether_journal BEGIN SELECT 1; END", "change `aether_journal`"),
        ("CREATE INDEX mine ON aether_runs(digest)", "change `aether_runs`"),
        ("CREATE TABLE aether_mine(x)", "change `aether_mine`"),
        ("PRAGMA journal_mode = DELETE", "use `PRAGMA journal_mode = DELETE`"),
        ("PRAGMA locking_mode = EXCLUSIVE", "use `PRAGMA locking_mode = EXCLUSIVE`"),
        ("PRAGMA writable_schema = ON", "use `PRAGMA writable_schema = ON`"),
    ] {
        let error = fails(&path, move |db| db.execute_batch(sql)).await.to_string();
        assert!(error.contains(why), "{sql}: {error}");
        let looked_away = move |db: &mut Connection| {
            let _looked_away = db.execute_batch(sql);
            Ok::<_, rusqlite::Error>(())
        };
        let error = fails(&path, looked_away).await.to_string();
        assert!(error.contains(why), "{sql}: {error}");
    }
    let attached = move |db: &mut Connection| {
        let same = db.path().unwrap().to_owned();
        db.execute("ATTACH ?1 AS again", [same])?;
        db.execute("DELETE FROM again.aether_runs", [])
    };
    let error = fails(&path, attached).await.to_string();
    assert!(error.contains("change `aether_runs`"), "{error}");
    let own = "PRAGMA foreign_keys = OFF; PRAGMA journal_mode; PRAGMA application_id = 7; CREATE TABLE mine(x);
               CREATE TEMP TABLE aether_notes(x); INSERT INTO aether_notes VALUES(1); ALTER TABLE mine RENAME TO yours; CREATE INDEX i ON yours(x);
               CREATE VIEW seen AS SELECT id FROM aether_runs; DROP TABLE yours; ANALYZE; VACUUM";
    let engine =
        Engine::builder().sqlite(&path).prepare(move |db| db.execute_batch(own)).start().await.unwrap();
    engine.start::<ot_order>(()).id("one").await.unwrap();
    engine.shutdown().await.unwrap();
    assert_eq!(number(&path, "SELECT count(*) FROM seen"), 1);
    let rename = "CREATE TABLE mine(x); ALTER TABLE mine RENAME TO aether_mine";
    let error = fails(&path, move |db| db.execute_batch(rename)).await.to_string();
    assert!(error.contains("aether_mine") && error.contains("rename it"), "{error}");
}

#[tokio::test]
async fn a_store_that_is_no_file_cannot_be_prepared() {
    let nothing = |_: &mut Connection| Ok::<_, rusqlite::Error>(());
    let error = Engine::builder().memory().prepare(nothing).start().await.unwrap_err();
    let error = Failure::from(error);
    assert!(error.to_string().contains("call `.sqlite(path)`"), "{error}");
    let (_folder, path) = place();
    let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(SqliteStore::open(&path).unwrap());
    Engine::builder().store(store).prepare(nothing).start().await.unwrap();
}
