//! Opening databases: new ones, by many at once, and ones that cannot be used.

use std::time::Duration;

use aether_core::store::{Store as _, StoreError};
use aether_pg_tests::Cluster;
use futures_util::future::join_all;

use super::{SOON, Table, connect, options};
use crate::database::Database;
use crate::store::PostgresStore;

#[tokio::test]
async fn ten_stores_may_open_a_new_database_at_once() {
    let own = Cluster::shared().database().await;
    let url = own.url();
    let stores = join_all((0..10).map(|_| Database::open(&url, options().connections(1)))).await;
    for store in &stores {
        assert!(store.is_ok(), "{store:?}");
    }
    let client = connect(&url).await;
    let rows = client.query_typed("SELECT version FROM schema_version", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [crate::schema::newest()]);
}

/// As at the first starts of several processes, of which one makes a table that the other one was about to make.
#[tokio::test]
async fn statements_that_fail_together_leave_the_session_as_it_was() {
    let table = Table::lay().await;
    for pooler in [false, true] {
        let database = Database::open(&table.url, options().pooler(pooler)).await.unwrap();
        let conn = database.connect().await.unwrap();
        for refused in
            ["CREATE TABLE runs(x int)", "CREATE TABLE other(x int); CREATE TABLE runs(x int); SELECT 1"]
        {
            conn.batch(refused).await.unwrap_err();
            // No request is in between that would end it.
            assert_eq!(conn.client().query_typed("SELECT 1", &[]).await.unwrap().len(), 1, "{refused}");
            assert!(conn.is_sound());
        }
        assert_eq!(table.number("SELECT count(*) FROM pg_tables WHERE tablename = 'other'").await, 0);
        conn.batch("CREATE TABLE other(x int); DROP TABLE other").await.unwrap();
        assert_eq!(conn.query("SELECT 1", &[]).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_store_that_does_not_come_about_leaves_no_session() {
    let cluster = Cluster::shared();
    let own = [cluster.database().await, cluster.database().await];
    let urls = own.each_ref().map(|own| own.url());
    let both = [("a", &urls[0]), ("b", &urls[1])];
    PostgresStore::connect_all_with(both, options()).await.unwrap().close().await.unwrap();
    // Part of another store; and of one that is opened beside it, the second is not there.
    assert!(PostgresStore::connect_with(&urls[1], options()).await.is_err());
    let away = ("c", &format!("{}_that_is_not_there", urls[0]));
    let impatient = options().patience(Duration::ZERO);
    assert!(PostgresStore::connect_all_with([both[0], away], impatient).await.is_err());
    for url in &urls {
        let client = connect(url).await;
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND backend_type = 'client backend'";
        let none = async {
            while client.query_typed(sql, &[]).await.unwrap()[0].get::<_, i64>(0) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, none).await.expect("a session is left behind");
    }
}

#[tokio::test]
async fn a_database_of_a_newer_build_is_refused() {
    let table = Table::lay().await;
    table.client.batch_execute("UPDATE schema_version SET version = 99").await.unwrap();
    let refused = Database::open(&table.url, options()).await.unwrap_err();
    let StoreError::NewerSchema { found: 99, supported, .. } = refused else { panic!("{refused}") };
    assert_eq!(i64::from(supported), crate::schema::newest());
}

#[tokio::test]
async fn what_is_wrong_with_a_database_is_said_with_what_to_do() {
    let cluster = Cluster::shared();
    let latin = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0";
    cluster.sql(&[latin.into(), "CREATE ROLE nobody LOGIN".into()]).await;
    let table = Table::lay().await;
    let impatient = || options().patience(std::time::Duration::ZERO);
    let said = async |url: &str| Database::open(url, impatient()).await.unwrap_err().to_string();
    let latin = said(&cluster.url("latin")).await;
    assert!(latin.contains("ENCODING 'UTF8'"), "{latin}");
    let missing = said(&cluster.url("not-there")).await;
    assert!(missing.contains("create the database first"), "{missing}");
    let powerless = said(&table.url.replace("aether@", "nobody@")).await;
    assert!(powerless.contains("GRANT USAGE ON SCHEMA"), "{powerless}");
    let url = said("postgres://aether@127.0.0.1:1/db?sslmode=strange").await;
    assert!(url.contains("verify-full"), "{url}");
    let scheme = said("postgress://aether@127.0.0.1/db").await;
    assert!(scheme.contains("begins with `postgress://`: write postgres://"), "{scheme}");
    let nothing = said("").await;
    assert!(nothing.contains("names no host: postgres://user:password@host"), "{nothing}");
    let nobody = said("postgres://aether@127.0.0.1:1/db").await;
    assert!(nobody.contains("look whether the server runs"), "{nobody}");
    let query = if table.url.contains('?') { '&' } else { '?' };
    let demanding = format!("{}{query}sslmode=require", table.url);
    let patient = Database::open(&demanding, options());
    let encrypted = tokio::time::timeout(std::time::Duration::from_secs(90), patient).await;
    let encrypted = encrypted.expect("no other try helps").unwrap_err().to_string();
    assert!(encrypted.contains("turn on `ssl`"), "{encrypted}");
}

#[tokio::test]
async fn tables_of_others_under_the_names_of_the_store_are_named() {
    let own = Cluster::shared().database().await;
    let client = connect(&own.url()).await;
    client
        .batch_execute("CREATE SCHEMA IF NOT EXISTS aether; CREATE TABLE aether.runs(x int)")
        .await
        .unwrap();
    let refused = Database::open(&own.url(), options()).await.unwrap_err().to_string();
    assert!(
        refused.contains("relation \"runs\" already exists [42P07], and it is not the store's"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_account_that_may_only_use_the_tables_is_enough() {
    let table = Table::lay().await;
    let name = format!("user_{}", table.url.rsplit('/').next().unwrap());
    let grants = format!(
        "CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA aether TO {name};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA aether TO {name}"
    );
    table.client.batch_execute(&grants).await.unwrap();
    Database::open(&table.url.replace("aether@", &format!("{name}@")), options()).await.unwrap();
}

#[tokio::test]
async fn a_notice_that_a_crash_left_is_delivered() {
    let table = Table::lay().await;
    table.run("parent", Some("first"), 0).await;
    table.client.batch_execute("UPDATE runs SET owner = NULL, status = 2").await.unwrap();
    table.client.batch_execute("INSERT INTO notices VALUES (1, 'child', 'parent', 7)").await.unwrap();
    let store = PostgresStore::connect(&table.url).await.unwrap();
    while table.number("SELECT count(*) FROM notices").await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(table.number("SELECT wake_at FROM due WHERE run = 'parent' AND notified").await, 7);
    store.close().await.unwrap();
}
