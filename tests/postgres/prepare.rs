//! The program's own tables: made before a run is resumed, by one process after the other.

use std::time::Duration;

use aether::error::BuildError;
use aether::postgres::tokio_postgres;
use aether::prelude::*;

use super::kit::{Bank, in_time};

async fn fails(bank: &Bank, sql: &'static str) -> String {
    let prepared = bank.builder().prepare_postgres(async move |db| db.batch_execute(sql).await);
    match prepared.start().await {
        Err(BuildError::Prepare { store, error }) => {
            assert!(store.starts_with("postgres 127.0.0.1"), "{store}");
            format!("{error}: {:?}", error.get())
        }
        other => panic!("the start should have failed: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_that_start_at_once_prepare_one_after_the_other() {
    let bank = Bank::new().await;
    bank.sql("CREATE TABLE starts(n int8); INSERT INTO starts VALUES (0)").await;
    // Reads, waits and writes without a transaction: two at a time would lose a count.
    let starts = (0..10).map(|_| {
        let builder = bank.builder().prepare_postgres(async |db| {
            let n: i64 = db.query_one("SELECT n FROM starts", &[]).await?.get(0);
            tokio::time::sleep(Duration::from_millis(20)).await;
            db.execute("UPDATE starts SET n = $1", &[&(n + 1)]).await
        });
        tokio::spawn(async move { builder.start().await.unwrap().shutdown().await.unwrap() })
    });
    for start in starts.collect::<Vec<_>>() {
        in_time(start).await.unwrap();
    }
    assert_eq!(bank.texts("SELECT n::text FROM starts").await, ["10"]);
}

#[tokio::test]
async fn an_error_of_the_programs_own_is_the_error_of_the_start() {
    let bank = Bank::new().await;
    let said = fails(&bank, "CREATE TABEL x(y int)").await;
    assert!(said.contains("TABEL"), "{said}");
    let said = fails(&bank, "BEGIN; CREATE TABLE half(x int)").await;
    assert!(said.contains("left a transaction open"), "{said}");
    let panics = bank
        .builder()
        .prepare_postgres(async |_| -> std::result::Result<(), String> { panic!("a broken plan") });
    let error = Failure::from(panics.start().await.unwrap_err()).to_string();
    assert!(error.contains("a broken plan"), "{error}");
    assert_eq!(bank.texts("SELECT to_regclass('half')::text IS NULL || ''").await, ["true"]);
    // A start that failed is no obstacle to the next one, and several preparations run in their order.
    let engine = bank
        .builder()
        .prepare_postgres(async |db| db.batch_execute("CREATE TABLE first(x int)").await)
        .prepare_postgres(async |db| {
            let transaction = db.transaction().await?;
            transaction.execute("INSERT INTO first VALUES(1)", &[]).await?;
            transaction.commit().await
        })
        .start()
        .await
        .unwrap();
    engine.shutdown().await.unwrap();
    assert_eq!(bank.texts("SELECT count(*)::text FROM public.first").await, ["1"]);
}

#[tokio::test]
async fn only_postgres_is_prepared_like_this() {
    let nothing = async |_: &mut tokio_postgres::Client| Ok::<_, String>(());
    let builder = Engine::builder().memory().allow_missing_deps().prepare_postgres(nothing);
    let error = Failure::from(builder.start().await.unwrap_err()).to_string();
    assert!(error.contains("call `.postgres(url)`"), "{error}");
}
