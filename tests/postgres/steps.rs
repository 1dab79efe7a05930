//! Transaction steps on Postgres: the SQL of a body and its outcome are one, whatever fails, dies or is in the way.

use std::time::Duration;

use aether::error::{Fault, RunError};
use aether::prelude::*;

use super::kit::{Bank, Calls, in_time};

/// Keeps the body busy: no step may sleep, and a test of its limits must.
fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Ends as it is told, after it wrote a row.
#[step(effect = "transaction")]
async fn write(cx: &mut StepCx, how: String) -> Result<i64> {
    let call = Calls::count(cx)?;
    cx.postgres(|db| db.execute("INSERT INTO notes(text) VALUES($1)", &[&how]))?;
    match how.as_str() {
        "fail" => Err(Failure::new("no")),
        "panic" => panic!("a broken body"),
        "wait" => {
            std::future::pending::<()>().await;
            Ok(0)
        }
        "lost" if call == 0 => {
            let _the_connection_is_gone =
                cx.postgres(|db| db.execute("SELECT pg_terminate_backend(pg_backend_pid())", &[]));
            Err(Failure::permanent("the body saw that its connection is gone"))
        }
        sql if sql.starts_with("SQL:") => {
            // What was refused cannot be made good by looking away.
            let _looked_away = cx.postgres(|db| db.execute(sql.trim_start_matches("SQL:"), &[]));
            Ok(1)
        }
        _ => Ok(cx.postgres(|db| Ok(db.query_one("SELECT count(*) FROM notes", &[])?.get(0)))?),
    }
}

/// Takes longer than it may, after it wrote a row: in a statement, or without one.
#[step(effect = "transaction", timeout = "1500ms")]
async fn write_late(cx: &mut StepCx, how: String) -> Result<i64> {
    Calls::count(cx)?;
    cx.postgres(|db| db.execute("INSERT INTO notes(text) VALUES($1)", &[&how]))?;
    if how == "slow" {
        return Ok(cx.postgres(|db| Ok(db.query_one("SELECT 1::int8 FROM pg_sleep(600)", &[])?.get(0)))?);
    }
    pause(1800);
    Ok(0)
}

#[workflow]
async fn writing(cx: &mut Cx, how: String) -> Result<i64> {
    if matches!(how.as_str(), "slow" | "silent") {
        return Ok(write_late(cx, how).await?);
    }
    Ok(write(cx, how).await?)
}

/// Fails twice.
#[step(effect = "transaction", retry(max_retries = 3, delay = "1ms"))]
async fn stubborn(cx: &mut StepCx) -> Result<u64> {
    let call = Calls::count(cx)?;
    let written = cx.postgres(|db| db.execute("INSERT INTO notes(text) VALUES('stubborn')", &[]))?;
    if call < 2 { Err(Failure::retryable("not yet")) } else { Ok(written) }
}

#[workflow]
async fn insisting(cx: &mut Cx) -> Result<u64> {
    Ok(stubborn(cx).await?)
}

/// Uses what it has no right to.
#[step(effect = "read", retry(max_retries = 0))]
async fn not_a_transaction(cx: &mut StepCx) -> Result<u64> {
    Ok(cx.postgres(|db| db.execute("DELETE FROM notes", &[]))?)
}

#[workflow]
async fn trespassing(cx: &mut Cx) -> Result<u64> {
    Ok(not_a_transaction(cx).await?)
}

/// Takes two rows in the order that it is told, so that two of them wait for each other.
#[step(effect = "transaction", timeout = "120s")]
async fn cross(cx: &mut StepCx, first: i64, second: i64) -> Result<()> {
    let take = |id: i64| cx.postgres(|db| db.execute("UPDATE crossing SET n = n + 1 WHERE id = $1", &[&id]));
    take(first)?;
    Calls::count(cx)?;
    // Each has its first row before either wants the other one.
    while cx.dep::<Calls>()?.made() < 2 {
        pause(5);
    }
    take(second)?;
    Ok(())
}

#[workflow]
async fn crossing(cx: &mut Cx, order: (i64, i64)) -> Result<()> {
    Ok(cross(cx, order.0, order.1).await?)
}

/// Hides its way to the database from the check at the start.
fn through_a_helper(cx: &StepCx) -> Result<i64> {
    Ok(cx.sql(|db| db.query_row("SELECT 1", [], |row| row.get(0)))?)
}

#[step(effect = "transaction")]
async fn elsewhere(cx: &mut StepCx) -> Result<i64> {
    through_a_helper(cx)
}

#[workflow]
async fn astray(cx: &mut Cx) -> Result<i64> {
    Ok(elsewhere(cx).await?)
}

/// Steps of all kinds, whose appends are not waited for, before and behind the transactions.
#[workflow]
async fn many(cx: &mut Cx, count: u32) -> Result<i64> {
    let mut last = 0;
    for n in 0..count {
        let _now = cx.now().await;
        last = write(cx, format!("note {n}")).await?;
        let _random = cx.random().await;
    }
    Ok(last)
}

async fn error(engine: &Engine, how: &str) -> String {
    let run = engine.start::<writing>(how.to_owned()).await.unwrap();
    in_time(run.result()).await.unwrap_err().to_string()
}

async fn is_one_append(bank: &Bank) {
    let engine = bank.engine().await;
    let run = engine.start::<writing>("hello".to_owned()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    assert_eq!(bank.notes().await, ["hello"]);
    let committed = ["command_committed", "node_finished", "step_committed"];
    assert_eq!(
        bank.kinds("r").await[1..6],
        [&["node_started", "transaction_finished"], &committed[..]].concat()
    );
    engine.verify(run.id()).await.unwrap();
    assert_eq!((bank.calls.made(), bank.notes().await.len()), (1, 1), "a replay calls nothing");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_sql_and_the_outcome_are_one_append() {
    is_one_append(&Bank::new().await).await;
}

#[tokio::test]
async fn the_sql_and_the_outcome_are_one_append_behind_a_pooler() {
    is_one_append(&Bank::behind_a_pooler().await).await;
}

async fn leaves_nothing(bank: &Bank) {
    let engine = bank.engine().await;
    assert_eq!(error(&engine, "fail").await, "no");
    let said = error(&engine, "panic").await;
    assert!(said.contains("a broken body"), "{said}");
    let waited = error(&engine, "wait").await;
    assert!(waited.contains("awaited something that was not ready"), "{waited}");
    for late in ["slow", "silent"] {
        let said = error(&engine, late).await;
        assert!(said.starts_with("timed out: no answer within 1.5s"), "{late}: {said}");
    }
    assert_eq!(bank.notes().await, [""; 0]);
    let run = engine.start::<writing>("fine".to_owned()).await.unwrap();
    in_time(run.result()).await.unwrap();
    assert_eq!((bank.notes().await, bank.calls.made()), (vec!["fine".to_owned()], 6));
    let asleep =
        "SELECT pid::text FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND state = 'active'
                  AND pid <> pg_backend_pid() AND datname = current_database()";
    assert_eq!(bank.texts(asleep).await, [""; 0], "the server was told to stop");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_body_that_fails_panics_waits_or_is_late_leaves_nothing() {
    leaves_nothing(&Bank::new().await).await;
}

#[tokio::test]
async fn a_body_that_fails_leaves_nothing_behind_a_pooler() {
    leaves_nothing(&Bank::behind_a_pooler().await).await;
}

#[tokio::test]
async fn sql_that_could_harm_the_store_is_refused_and_undone() {
    let bank = Bank::new().await;
    let engine = bank.engine().await;
    bank.sql(
        "CREATE TABLE parents(id int8 PRIMARY KEY);
         CREATE TABLE children(parent int8 REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
         CREATE FUNCTION meddle() RETURNS void LANGUAGE sql AS 'DELETE FROM aether.snapshots WHERE false';
         CREATE ROLE meddler; GRANT meddler TO aether",
    )
    .await;
    for (sql, why) in [
        ("COMMIT", "begin, commit or roll back"),
        ("/* */ ; rollback", "begin, commit or roll back"),
        ("SAVEPOINT x", "begin, commit or roll back"),
        ("SET ROLE meddler", "change the session"),
        ("SELECT set_config('role', 'meddler', false)", "become another role (`meddler`)"),
        ("LISTEN x", "listen"),
        ("COPY notes FROM STDIN", "use `COPY`"),
        ("CREATE TEMP TABLE journal(x int)", "temporary objects"),
        ("UPDATE aether.runs SET status = 4", "change `runs`, which belongs to the engine"),
        ("DELETE FROM aether.journal WHERE false", "change `journal`"),
        ("TRUNCATE aether.snapshots", "change `snapshots`"),
        ("SELECT meddle()", "change `snapshots`"),
        ("WITH gone AS (DELETE FROM aether.inbox RETURNING 1) SELECT count(*) FROM gone", "change `inbox`"),
        ("DROP TABLE aether.blobs", "belongs to the engine"),
        ("ALTER TABLE aether.ledger ADD COLUMN mine int", "change `ledger`"),
        ("CREATE INDEX i ON aether.runs(digest)", "change `runs`"),
        ("CREATE TABLE aether.mine(x int)", "change `mine`"),
        ("ALTER TABLE notes SET SCHEMA aether", "change `notes`"),
        ("INSERT INTO children VALUES(7)", "deferred constraint"),
        ("INSERT INTO nowhere VALUES(7)", "a statement failed"),
        ("SELECT 1; DELETE FROM notes", "a statement failed"),
    ] {
        let said = error(&engine, &format!("SQL:{sql}")).await;
        assert!(said.starts_with("rejected: ") && said.contains(why), "{sql}: {said}");
        assert_eq!(bank.notes().await, [""; 0], "{sql}");
    }
    for sql in [
        "CREATE TABLE mine(x int CHECK (x > 0))",
        "INSERT INTO mine SELECT count(*)::int FROM aether.journal",
        "CREATE INDEX i ON mine(x)",
        "SET LOCAL work_mem = '8MB'",
        "SELECT 1 FROM aether.runs FOR SHARE",
        "DO $$ BEGIN BEGIN DELETE FROM aether.snapshots; RAISE 'undone'; EXCEPTION WHEN OTHERS THEN NULL; END; END $$",
        "DROP TABLE mine",
    ] {
        let run = engine.start::<writing>(format!("SQL:{sql}")).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 1, "{sql}");
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_retryable_failure_is_rolled_back_and_tried_again() {
    let bank = Bank::new().await;
    let engine = bank.engine().await;
    let run = engine.start::<insisting>(()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    assert_eq!((bank.notes().await.len(), bank.calls.made()), (1, 3));
    assert_eq!(bank.kinds("r").await.iter().filter(|kind| *kind == "step_retried").count(), 2);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_lost_connection_undoes_the_body_and_calls_it_again() {
    let bank = Bank::new().await;
    let engine = bank.engine().await;
    let run = engine.start::<writing>("lost".to_owned()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 1);
    assert_eq!((bank.notes().await, bank.calls.made()), (vec!["lost".to_owned()], 2));
    assert_eq!(bank.kinds("r").await.iter().filter(|kind| *kind == "transaction_finished").count(), 1);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn steps_that_wait_for_each_other_are_called_again() {
    let bank = Bank::new().await;
    bank.sql(
        "CREATE TABLE crossing(id int8 PRIMARY KEY, n int8); INSERT INTO crossing VALUES (1, 0), (2, 0)",
    )
    .await;
    let engine = bank.engine().await;
    let one = engine.start::<crossing>((1, 2)).await.unwrap();
    let two = engine.start::<crossing>((2, 1)).await.unwrap();
    in_time(one.result()).await.unwrap();
    in_time(two.result()).await.unwrap();
    assert_eq!(bank.texts("SELECT n::text FROM crossing ORDER BY id").await, ["2", "2"]);
    assert!(bank.calls.made() > 2, "one of them was in the way of the other");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_step_of_another_class_has_no_sql() {
    let bank = Bank::new().await;
    let engine = bank.engine().await;
    let run = engine.start::<trespassing>(()).await.unwrap();
    let error = in_time(run.result()).await.unwrap_err().to_string();
    assert!(error.contains("only a step with `effect = \"transaction\"` may use `cx.postgres`"), "{error}");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_the_check_at_the_start_cannot_see_stops_the_run() {
    let bank = Bank::new().await;
    let engine = bank.engine().await;
    let run = engine.start::<astray>(()).await.unwrap();
    let Err(RunError::Stopped { fault, .. }) = in_time(run.result()).await else { panic!("it ended") };
    assert!(
        matches!(&*fault, Fault::NoTransactions { store, .. } if store.starts_with("postgres ")),
        "{fault}"
    );
    assert!(fault.to_string().contains("use `.sqlite(path)` for `cx.sql`"), "{fault}");
    assert!(!run.status().await.unwrap().is_terminal());
    engine.shutdown().await.unwrap();
}

async fn keeps_its_order(bank: &Bank) {
    let engine = bank.engine().await;
    let runs = (0..8).map(|n| engine.start::<many>(6).id(format!("run-{n}")));
    let mut started = Vec::new();
    for run in runs {
        started.push(run.await.unwrap());
    }
    for run in &started {
        in_time(run.result()).await.unwrap();
        engine.verify(run.id()).await.unwrap();
    }
    assert_eq!((bank.notes().await.len(), bank.calls.made()), (48, 48));
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_keeps_the_order_of_its_appends() {
    keeps_its_order(&Bank::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_keeps_the_order_of_its_appends_behind_a_pooler() {
    keeps_its_order(&Bank::behind_a_pooler().await).await;
}
