//! Deleting runs with more rows than one statement has the time for.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::engine::{Engine, Retention};
use aether_core::store::{Purged, Renewal, StoreError};

use super::databases::Host;
use super::writer::{create, status, write};
use super::{SOON, Table, options, run_id};
use crate::error::LostAnswer;
use crate::shard::shard;
use crate::store::PostgresStore;

/// So many rows of each kind are more than two pieces.
const ROWS: i64 = 1_100;

/// The tables of which a run may have many rows.
const TABLES: [&str; 6] = ["blobs", "effects", "journal", "ledger", "inbox", "streams"];

/// Large values of a run.
pub(super) async fn values(table: &Table, run: &str, count: i64) {
    let sql = "INSERT INTO blobs SELECT $1::int2, $2::text, lpad(n::text, 64, '0'), 'value' FROM generate_series(1, $3::int8) n";
    table.client.execute(sql, &[&shard(run), &run, &count]).await.unwrap();
}

/// A run with many rows of each kind.
async fn large(table: &Table, run: &str) {
    values(table, run, 100).await;
    for sql in [
        "INSERT INTO effects SELECT $1::int2, $2::text, 'key ' || n, n, 0, '[]', NULL FROM generate_series(1, $3::int8) n",
        "INSERT INTO journal SELECT $1::int2, $2::text, n, n, 1, 1, 1, false, '[]', decode(repeat('00', 32), 'hex')
            FROM generate_series(1, $3::int8) n",
        "INSERT INTO ledger SELECT $1::int2, $2::text, 'key ' || n, n, 'c', 'i', 't', 'd', NULL, false,
            CASE n WHEN 1 THEN 0 WHEN 2 THEN 3 ELSE 1 END, NULL, NULL, true, 1, 1, 1 FROM generate_series(1, $3::int8) n",
        "INSERT INTO inbox SELECT $1::int2, $2::text, n, 'm' || n, 'signal:x', '', 1, CASE WHEN n > 1 THEN 0 END
            FROM generate_series(1, $3::int8) n",
        "INSERT INTO streams SELECT $1::int2, $2::text, 's' || n % 3, n, n, 1, 'c', 0, 1, 1, 0, 'null'
            FROM generate_series(1, $3::int8) n",
    ] {
        table.client.execute(sql, &[&shard(run), &run, &ROWS]).await.unwrap();
    }
}

/// Of each table, how many rows it has of a run.
async fn rows(table: &Table, run: &str) -> [i64; 6] {
    let mut rows = [0; 6];
    for (count, table_of) in rows.iter_mut().zip(TABLES) {
        *count = table.number(&format!("SELECT count(*) FROM {table_of} WHERE run = '{run}'")).await;
    }
    rows
}

/// Each row that is deleted of these tables takes so long.
async fn slow(table: &Table, tables: &[&str], millis: u64) {
    let body = format!("BEGIN PERFORM pg_sleep({millis} / 1000.0); RETURN OLD; END");
    let function = format!("CREATE FUNCTION aether.slow() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$");
    table.client.batch_execute(&function).await.unwrap();
    for of in tables {
        let trigger =
            format!("CREATE TRIGGER slow BEFORE DELETE ON {of} FOR EACH ROW EXECUTE FUNCTION aether.slow()");
        table.client.batch_execute(&trigger).await.unwrap();
    }
}

const END: &str = "UPDATE runs SET status = 3, owner = NULL, ended_at = 1 WHERE id = 'run'";

#[tokio::test]
async fn a_run_is_purged_that_has_more_than_one_statement_can_delete() {
    let table = Table::with(options().statement_timeout(Duration::from_millis(1500))).await;
    for name in ["run", "runs"] {
        table.run(name, Some("w"), 0).await;
        large(&table, name).await;
    }
    let others = rows(&table, "runs").await;
    table.client.batch_execute(END).await.unwrap();
    let place = table.number("SELECT place FROM runs WHERE id = 'run'").await;
    let delete = async |place| table.database.delete(&run_id("run"), place, &LostAnswer::default()).await;
    assert_eq!(delete(place + 1).await, Ok(Purged::Unknown), "that is another run of the id");
    assert_eq!(rows(&table, "run").await, others);
    // 100 values take 3 s.
    slow(&table, &["blobs"], 30).await;
    let deleted = tokio::time::timeout(SOON, delete(place)).await;
    assert_eq!(deleted.expect("one statement has no time for it"), Ok(Purged::Deleted));
    assert_eq!((rows(&table, "run").await, rows(&table, "runs").await), ([0; 6], others));
    assert_eq!(delete(place).await, Ok(Purged::Unknown));
}

#[tokio::test]
async fn a_purge_that_stops_anywhere_leaves_the_run_as_it_was() {
    let table = Table::lay().await;
    table.run("run", Some("w"), 0).await;
    large(&table, "run").await;
    table.client.batch_execute(END).await.unwrap();
    let (place, whole) = (table.number("SELECT place FROM runs").await, rows(&table, "run").await);
    let refuse = "CREATE FUNCTION aether.refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'it stops here' USING ERRCODE = 'P0001'; END $$";
    table.client.batch_execute(refuse).await.unwrap();
    for stop in TABLES.iter().chain(&["runs"]) {
        let trigger = format!(
            "CREATE TRIGGER stop BEFORE DELETE ON {stop} FOR EACH ROW EXECUTE FUNCTION aether.refuse()"
        );
        table.client.batch_execute(&trigger).await.unwrap();
        let stopped = table.database.delete(&run_id("run"), place, &LostAnswer::default()).await;
        assert!(matches!(stopped, Err(StoreError::Unavailable { .. })), "{stop}: {stopped:?}");
        assert_eq!((rows(&table, "run").await, table.number("SELECT count(*) FROM runs").await), (whole, 1));
        table.client.batch_execute(&format!("DROP TRIGGER stop ON {stop}")).await.unwrap();
    }
    let deleted = table.database.delete(&run_id("run"), place, &LostAnswer::default()).await;
    assert_eq!(deleted, Ok(Purged::Deleted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_purged_keeps_no_other_one() {
    let table = Table::lay().await;
    for name in ["bad-1", "a", "bad-2", "b"] {
        table.run(name, Some("w"), 0).await;
    }
    let end = "UPDATE runs SET status = 3, owner = NULL, ended_at = 1; UPDATE journal SET final = true;
        CREATE FUNCTION aether.refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'it stops here' USING ERRCODE = 'P0001'; END $$;
        CREATE TRIGGER stop BEFORE DELETE ON journal FOR EACH ROW WHEN (OLD.run LIKE 'bad%')
            EXECUTE FUNCTION aether.refuse()";
    table.client.batch_execute(end).await.unwrap();
    let store = Arc::new(PostgresStore::connect(&table.url).await.unwrap());
    let engine = Engine::builder().environment(Arc::new(Host)).store(store).start().await.unwrap();
    let retention = Retention::new().completed(Duration::ZERO);
    let report = engine.purge(&retention).await.unwrap();
    assert_eq!((report.deleted, report.failed), (2, 2));
    assert_eq!(table.number("SELECT count(*) FROM runs").await, 2);
    for n in 3..9 {
        table.run(&format!("bad-{n}"), Some("w"), 0).await;
    }
    table.client.batch_execute("UPDATE runs SET status = 3, owner = NULL, ended_at = 1").await.unwrap();
    assert!(engine.purge(&retention).await.is_err(), "of so many it is not their fault");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_generation_ends_that_has_more_than_one_statement_can_delete() {
    let table = Table::with(options().statement_timeout(Duration::from_millis(1500))).await;
    create(&table.database, "run").await;
    large(&table, "run").await;
    table.client.batch_execute("DELETE FROM journal WHERE frame > 0").await.unwrap();
    // 1,100 of them take 2.2 s.
    slow(&table, &["ledger"], 2).await;
    let renewed = write(&table.database, "run", 1, |append| {
        append.status = status(Status::Running, false);
        append.renews = Some(Renewal { workflow: "next".into(), version: 4, began: 1 });
    });
    let renewed = tokio::time::timeout(SOON, renewed).await.expect("one statement has no time for it");
    renewed.unwrap();
    // What is started and in doubt stays, with its outcomes; a message that was not consumed stays, and the newest one.
    assert_eq!(rows(&table, "run").await, [100, 2, 1, 2, 2, ROWS]);
    assert_eq!(table.number("SELECT min(seq) + max(seq) FROM inbox").await, 1 + ROWS);
}
