//! Transaction steps: the SQL of a body and its outcome are one, whatever fails or dies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::error::{Fault, RunError};
use aether::id::RunId;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::sqlite::rusqlite::{Connection, OptionalExtension as _};
use tempfile::TempDir;

use super::seeds::kit::in_time;

/// Calls of bodies.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicU32>);

impl Calls {
    fn made(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    fn count(cx: &StepCx) -> Result<u32> {
        Ok(cx.dep::<Self>()?.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Ends as it is told, after it wrote a row.
#[step(effect = "transaction", timeout = "1500ms")]
async fn write(cx: &mut StepCx, how: String) -> Result<i64> {
    Calls::count(cx)?;
    cx.sql(|db| db.execute("INSERT INTO notes(text) VALUES(?1)", [&how]))?;
    match how.as_str() {
        "fail" => Err(Failure::new("no")),
        "panic" => panic!("a broken body"),
        "wait" => {
            std::future::pending::<()>().await;
            Ok(0)
        }
        "slow" => Ok(cx.sql(|db| {
            let endless =
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
            db.query_row(endless, [], |row| row.get(0))
        })?),
        "slow write" => Ok(cx.sql(|db| {
            let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
                           INSERT INTO notes(text) SELECT x FROM n";
            db.execute(endless, []).map(|rows| rows as i64)
        })?),
        sql if sql.starts_with("SQL:") => {
            // What was refused cannot be made good by looking away.
            let _looked_away = cx.sql(|db| db.execute_batch(sql.trim_start_matches("SQL:")));
            let _goes_on = cx.sql(|db| db.execute("INSERT INTO notes(text) VALUES('after')", []));
            Ok(1)
        }
        _ => Ok(cx.sql(|db| Ok(db.last_insert_rowid()))?),
    }
}

#[workflow]
async fn writing(cx: &mut Cx, how: String) -> Result<i64> {
    Ok(write(cx, how).await?)
}

/// Fails twice.
#[step(effect = "transaction", retry(max_retries = 3, delay = "1ms"))]
async fn stubborn(cx: &mut StepCx) -> Result<i64> {
    let call = Calls::count(cx)?;
    cx.sql(|db| db.execute("INSERT INTO notes(text) VALUES('stubborn')", []))?;
    if call < 2 { Err(Failure::retryable("not yet")) } else { Ok(cx.sql(|db| Ok(db.last_insert_rowid()))?) }
}

#[workflow]
async fn insisting(cx: &mut Cx) -> Result<i64> {
    Ok(stubborn(cx).await?)
}

/// Uses what it has no right to.
#[step(effect = "read", retry(max_retries = 0))]
async fn not_a_transaction(cx: &mut StepCx) -> Result<i64> {
    Ok(cx.sql(|db| db.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)))?)
}

#[workflow]
async fn trespassing(cx: &mut Cx) -> Result<i64> {
    Ok(not_a_transaction(cx).await?)
}

/// Takes the run away from its worker, as another process would after a long pause.
#[step(effect = "read")]
async fn steal(cx: &mut StepCx) -> Result<usize> {
    Ok(steal_run(&cx.dep::<PathBuf>()?)?)
}

fn steal_run(file: &Path) -> aether::sqlite::rusqlite::Result<usize> {
    let db = Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(10))?;
    db.execute("UPDATE aether_runs SET epoch = epoch + 1, owner = 'another'", [])
}

#[workflow]
async fn robbed(cx: &mut Cx) -> Result<i64> {
    steal(cx).await?;
    Ok(write(cx, "robbed".to_owned()).await?)
}

/// Keeps a note of what it changed.
#[step(effect = "transaction")]
async fn note(cx: &mut StepCx, text: String) -> Result<i64> {
    let row = cx.sql(|db| {
        db.execute("INSERT INTO notes(text) VALUES(?1)", [&text])?;
        Ok(db.last_insert_rowid())
    })?;
    cx.changed("note", &row.to_string(), "insert").version("1");
    Ok(row)
}

#[workflow]
async fn noting(cx: &mut Cx, text: String) -> Result<i64> {
    Ok(note(cx, text).await?)
}

struct Bank {
    folder: TempDir,
    calls: Calls,
}

impl Bank {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), calls: Calls::default() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("a.db")
    }

    async fn engine(&self) -> Engine {
        let engine = Engine::builder().sqlite(self.file()).provide(self.calls.clone()).provide(self.file());
        let engine = engine.start().await.unwrap();
        self.db()
            .execute_batch("CREATE TABLE IF NOT EXISTS notes(id INTEGER PRIMARY KEY, text TEXT)")
            .unwrap();
        engine
    }

    fn db(&self) -> Connection {
        let db = Connection::open(self.file()).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db
    }

    fn notes(&self) -> Vec<String> {
        let db = self.db();
        let mut notes = db.prepare("SELECT text FROM notes ORDER BY id").unwrap();
        notes.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn kinds(&self, run: &str) -> Vec<String> {
        let db = self.db();
        let mut kinds =
            db.prepare("SELECT kind FROM aether_history WHERE run = ?1 ORDER BY position").unwrap();
        kinds.query_map([run], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// The error of a run of `writing`.
    async fn error(&self, engine: &Engine, how: &str) -> String {
        let run = engine.start::<writing>(how.to_owned()).await.unwrap();
        in_time(run.result()).await.unwrap_err().to_string()
    }
}

#[tokio::test]
async fn the_sql_and_the_outcome_are_one_append() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    let run = engine.start::<writing>("hello".to_owned()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    assert_eq!(bank.notes(), ["hello"]);
    let committed = ["command_committed", "node_finished", "step_committed"];
    assert_eq!(bank.kinds("r")[1..6], [&["node_started", "transaction_finished"], &committed[..]].concat());
    let view = engine.view(run.id()).await.unwrap();
    assert!(view.steps[0].world_changed() && view.illegal.is_empty(), "{view:?}");
    engine.verify(run.id()).await.unwrap();
    assert_eq!((bank.calls.made(), bank.notes().len()), (1, 1), "a replay calls nothing");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_body_that_fails_panics_or_waits_leaves_nothing() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    assert_eq!(bank.error(&engine, "fail").await, "no");
    let said = bank.error(&engine, "panic").await;
    assert!(said.contains("a broken body"), "{said}");
    let waited = bank.error(&engine, "wait").await;
    assert!(waited.contains("awaited something that was not ready"), "{waited}");
    assert_eq!(bank.notes(), [""; 0]);
    let run = engine.start::<writing>("fine".to_owned()).await.unwrap();
    in_time(run.result()).await.unwrap();
    assert_eq!((bank.notes(), bank.calls.made()), (vec!["fine".to_owned()], 4));
}

#[tokio::test]
async fn sql_that_could_harm_the_store_is_refused_and_undone() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    bank.db()
        .execute_batch(
            "CREATE TABLE parents(id INTEGER PRIMARY KEY);
             CREATE TABLE children(parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
             CREATE TABLE once(n UNIQUE); INSERT INTO once VALUES(1)",
        )
        .unwrap();
    for (sql, why) in [
        ("COMMIT", "begin, commit or roll back"),
        ("ROLLBACK", "begin, commit or roll back"),
        ("SAVEPOINT x", "begin, commit or roll back"),
        ("RELEASE one", "begin, commit or roll back"),
        ("ATTACH ':memory:' AS other", "attach or detach"),
        ("PRAGMA synchronous = OFF", "use `PRAGMA synchronous`"),
        ("PRAGMA writable_schema = ON", "use `PRAGMA writable_schema`"),
        ("UPDATE aether_runs SET status = 'failed'", "change `aether_runs`, which belongs to the engine"),
        ("DELETE FROM aether_journal", "change `aether_journal`"),
        ("DELETE FROM aether_snapshots", "change `aether_snapshots`"),
        (
            "INSERT INTO main.Aether_Inbox(run_no, id, topic, payload, at) VALUES(1, '', '', '', 1)",
            "change `aether_inbox`",
        ),
        ("DROP TABLE aether_ledger", "change `aether_ledger`"),
        ("ALTER TABLE aether_ledger RENAME TO x", "change `aether_ledger`"),
        (
            "CREATE TRIGGER t AFTER INSERT ON aether_journal BEGIN DELETE FROM notes; END",
            "change `aether_journal`",
        ),
        ("CREATE INDEX i ON aether_runs(status)", "change `aether_runs`"),
        (
            "CREATE TRIGGER t AFTER INSERT ON notes BEGIN DELETE FROM aether_journal; END; INSERT INTO notes(text) VALUES('x')",
            "change `aether_journal`",
        ),
        ("CREATE TEMP TABLE aether_journal(x)", "temporary objects"),
        ("CREATE TABLE aether_mine(x)", "kept for the engine"),
        ("ALTER TABLE once RENAME TO Aether_Mine", "kept for the engine"),
        ("CREATE VIRTUAL TABLE v USING fts5(x)", "virtual tables"),
        ("SELECT load_extension('x')", "load an extension"),
        ("ANALYZE", "do this"),
        ("INSERT INTO children VALUES(7)", "deferred constraint"),
        ("INSERT OR ROLLBACK INTO once VALUES(1)", "rolled the whole transaction back"),
    ] {
        let said = bank.error(&engine, &format!("SQL:{sql}")).await;
        assert!(said.starts_with("rejected: ") && said.contains(why), "{sql}: {said}");
        assert_eq!(bank.notes(), [""; 0], "{sql}");
    }
    let own = "SQL:CREATE TABLE mine(x CHECK (x > 0)); INSERT INTO mine VALUES(1); CREATE INDEX i ON mine(x);
        ALTER TABLE mine ADD COLUMN y CHECK (y > 0); SELECT count(*) FROM aether_journal; DROP TABLE mine";
    let run = engine.start::<writing>(own.to_owned()).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1, "its own tables are its own");
    assert_eq!(bank.notes().len(), 2);
    let same = "DELETE FROM aether_snapshots";
    engine.store().delete_snapshots().await.unwrap();
    assert!(bank.error(&engine, &format!("SQL:{same}")).await.contains("change `aether_snapshots`"));
}

#[tokio::test]
async fn a_transaction_that_takes_too_long_is_interrupted() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    for how in ["slow", "slow write"] {
        let said = bank.error(&engine, how).await;
        assert!(said.starts_with("timed out: no answer within 1.5s"), "{said}");
        assert_eq!(bank.notes(), [""; 0]);
    }
    let run = engine.start::<writing>("fine".to_owned()).await.unwrap();
    in_time(run.result()).await.unwrap();
}

#[tokio::test]
async fn a_retryable_failure_is_rolled_back_and_tried_again() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    let run = engine.start::<insisting>(()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    assert_eq!((bank.notes().len(), bank.calls.made()), (1, 3));
    assert_eq!(bank.kinds("r").iter().filter(|kind| *kind == "step_retried").count(), 2);
    assert_eq!(engine.view(run.id()).await.unwrap().steps[0].attempts, 3);
}

#[tokio::test]
async fn what_a_body_says_it_changed_follows_its_outcome() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    let run = engine.start::<noting>("x".to_owned()).id("r").await.unwrap();
    in_time(run.result()).await.unwrap();
    assert_eq!(bank.kinds("r")[2..4], ["transaction_finished", "state_changed"]);
}

#[tokio::test]
async fn a_step_of_another_class_has_no_sql() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    let run = engine.start::<trespassing>(()).await.unwrap();
    let error = in_time(run.result()).await.unwrap_err().to_string();
    assert!(error.contains("only a step with `effect = \"transaction\"` may use `cx.sql`"), "{error}");
}

#[tokio::test]
async fn a_worker_that_lost_its_run_leaves_no_trace() {
    let bank = Bank::new();
    let engine = bank.engine().await;
    let run = engine.start::<robbed>(()).id("r").await.unwrap();
    in_time(async {
        while !bank.kinds("r").contains(&"step_committed".to_owned())
            && engine.store().run(run.id()).await.unwrap().unwrap().epoch < 2
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    engine.shutdown().await.unwrap();
    assert_eq!((bank.notes(), bank.calls.made()), (Vec::new(), 0), "the body was not even called");
    assert!(!bank.kinds("r").contains(&"transaction_finished".to_owned()));
}

#[tokio::test]
async fn a_store_without_sql_stops_the_run_and_says_what_it_needs() {
    let engine = Engine::builder().memory().provide(Calls::default()).start().await.unwrap();
    let run = engine.start::<writing>("x".to_owned()).await.unwrap();
    let Err(RunError::Stopped { fault, .. }) = in_time(run.result()).await else { panic!("it ended") };
    assert!(matches!(&*fault, Fault::NoTransactions { store, .. } if store == "memory"), "{fault}");
    assert!(fault.to_string().contains("use `.sqlite(path)`"), "{fault}");
    assert!(!run.status().await.unwrap().is_terminal());
}

#[tokio::test]
async fn a_program_that_provides_too_little_may_go_on_later() {
    let bank = Bank::new();
    bank.engine().await.shutdown().await.unwrap();
    let poor = Engine::builder().sqlite(bank.file()).start().await.unwrap();
    let run = poor.start::<writing>("x".to_owned()).id("r").await.unwrap();
    let Err(RunError::Stopped { fault, .. }) = in_time(run.result()).await else { panic!("it ended") };
    assert!(matches!(*fault, Fault::NotProvided { .. }), "{fault}");
    poor.shutdown().await.unwrap();
    let engine = bank.engine().await;
    let run = engine.handle::<writing>("r").await.unwrap();
    // Parked, and resumed by a program that provides it, without a command.
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    assert!(bank.kinds("r").contains(&"transaction_rolled_back".to_owned()));
}

/// The engine on a store that loses an append, then an engine that is whole: the body's effect is there once.
#[tokio::test]
async fn a_crash_at_any_append_keeps_the_effect_exactly_once() {
    use aether::store::Store;
    use aether_testing::crash::{CrashPoint, CrashStore};
    for write in 1..6 {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let bank = Bank::new();
            bank.engine().await.shutdown().await.unwrap();
            let id = RunId::new("r").unwrap();
            {
                let store: Arc<dyn Store> = Arc::new(SqliteStore::open(bank.file()).unwrap());
                let store = Arc::new(CrashStore::new(store, Some(point)));
                let engine = Engine::builder().store(store.clone()).provide(bank.calls.clone());
                let engine = engine.lease(Duration::from_millis(200));
                let engine = engine.start().await.unwrap();
                let ended = async {
                    let run = engine.start::<writing>("once".to_owned()).id("r").await.unwrap();
                    run.result().await
                };
                in_time(async {
                    tokio::select! {
                        () = store.crashed() => {}
                        _ = ended => {}
                    }
                })
                .await;
            }
            let engine = bank.engine().await;
            let run = engine.start::<writing>("once".to_owned()).id("r").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), 1, "{point:?}");
            assert_eq!(bank.notes(), ["once"], "{point:?}");
            engine.verify(&id).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_killed_process_leaves_each_transfer_exactly_once() {
    let bank = Bank::new();
    // So many commits take longer than the first process gets, however fast the machine is.
    let parts = 1_000;
    let mut kills = 0;
    let mut patience = Duration::from_millis(60);
    loop {
        let mut child = tokio::process::Command::new(crate::built::built().example("12_transaction"))
            .arg(parts.to_string())
            .arg(bank.file())
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        match tokio::time::timeout(patience, child.wait()).await {
            Ok(status) => {
                assert!(status.unwrap().success());
                break;
            }
            Err(_) => {
                child.kill().await.unwrap();
                kills += 1;
                patience += Duration::from_millis(20);
                assert!(kills < 500, "no progress");
            }
        }
        let there = bank
            .db()
            .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'transfers'", [], |_| Ok(()))
            .optional();
        if there.unwrap().is_some() {
            let (rows, finished) = counts(&bank.db());
            assert_eq!(rows, finished, "money moves exactly with its outcome");
        }
    }
    assert!(kills > 0, "nothing was killed");
    assert_eq!(counts(&bank.db()), (parts, parts));
    let grace: i64 =
        bank.db().query_row("SELECT cents FROM accounts WHERE name = 'grace'", [], |row| row.get(0)).unwrap();
    assert_eq!(grace, 10 * parts);
}

/// Transfers in the user's table, and outcomes in the journal.
fn counts(db: &Connection) -> (i64, i64) {
    let count = "SELECT (SELECT count(*) FROM transfers),
        (SELECT count(*) FROM aether_history WHERE kind = 'transaction_finished')";
    db.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}
