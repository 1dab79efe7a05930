//! What is said where a database cannot be used: the text names what to do.

use std::time::Duration;

use aether::error::BuildError;
use aether::postgres::PostgresOptions;
use aether::postgres::tokio_postgres::{self, NoTls};
use aether::prelude::*;
use aether::store::StoreError;
use aether_pg_tests::{Cluster, PgBouncer, Stop};

use super::kit::{client, in_time};

/// The error of a start on this database.
async fn refused(url: &str) -> StoreError {
    let options = PostgresOptions::new().patience(Duration::from_millis(300));
    let builder = Engine::builder().postgres_with(url, options).allow_missing_deps();
    match in_time(builder.start()).await {
        Err(BuildError::Store(error)) => error,
        other => panic!("the start should have failed: {other:?}"),
    }
}

async fn says(url: &str, words: &[&str]) {
    let text = refused(url).await.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn what_is_wrong_with_the_account_is_named() {
    let hba =
        "local all all trust\nhost all aether 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let cluster = Cluster::begin(Cluster::options().file("pg_hba.conf", hba));
    let database = cluster.database().await;
    cluster.sql(&["CREATE ROLE shop LOGIN PASSWORD 'right'".to_owned()]).await;
    let (port, name) = (cluster.port(), database.name());

    let wrong = format!("postgres://shop:secret@127.0.0.1:{port}/{name}");
    says(&wrong, &["password authentication failed", "look at user and password"]).await;
    let unknown = format!("postgres://nobody:secret@127.0.0.1:{port}/{name}");
    says(&unknown, &["look at user and password"]).await;
    let none = format!("postgres://shop@127.0.0.1:{port}/{name}");
    says(&none, &["password"]).await;
    says(&cluster.url("nowhere"), &["database \"nowhere\" does not exist", "createdb"]).await;
    says("postgres://aether@127.0.0.1:1/nowhere", &["postgres 127.0.0.1:1/nowhere", "refused"]).await;
    says("postgres://aether@127.0.0.1:x/nowhere", &["invalid"]).await;

    // It may connect, and create nothing.
    let poor = format!("postgres://shop:right@127.0.0.1:{port}/{name}");
    says(&poor, &["permission denied", "GRANT CREATE ON DATABASE"]).await;
}

/// The grants that the page on Postgres names are enough, and no fewer are.
#[tokio::test]
async fn a_role_that_is_granted_what_the_page_says_can_run_what_another_one_has_made() {
    let cluster = Cluster::shared();
    let database = cluster.database().await;
    let owner = Engine::builder().postgres(database.url()).allow_missing_deps().start().await.unwrap();
    owner.shutdown().await.unwrap();
    let admin = client(&database.url()).await;
    admin.batch_execute("CREATE ROLE worker_of_the_page LOGIN").await.unwrap();
    let url = database.url().replace("aether@", "worker_of_the_page@");
    says(&url, &["permission denied", "GRANT USAGE ON SCHEMA"]).await;
    let page = include_str!("../../docs/postgres.md");
    let grants = page
        .split("```sql")
        .find_map(|block| block.split_once("```").filter(|(sql, _)| sql.contains("-- worker")));
    let grants = grants.unwrap().0.replace("shop_worker", "worker_of_the_page");
    admin.batch_execute(&grants).await.unwrap();
    let worker = Engine::builder().postgres(&url).allow_missing_deps().start().await.unwrap();
    let run = worker.start::<hello>("you".to_owned()).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "hello you");
    worker.shutdown().await.unwrap();
    admin.batch_execute("DROP OWNED BY worker_of_the_page; DROP ROLE worker_of_the_page").await.unwrap();
}

/// Says hello.
#[workflow]
pub(super) async fn hello(cx: &mut Cx, name: String) -> Result<String> {
    let _now = cx.now().await;
    Ok(format!("hello {name}"))
}

#[tokio::test]
async fn a_standby_is_named_and_the_primary_is_found_among_several() {
    let cluster = Cluster::begin(Cluster::options().setting("hot_standby", "on"));
    let database = cluster.database().await;
    let url = database.url();
    Engine::builder().postgres(&url).allow_missing_deps().start().await.unwrap().shutdown().await.unwrap();
    cluster.stop(Stop::Fast);
    std::fs::write(cluster.data_folder().join("standby.signal"), "").unwrap();
    cluster.start();
    says(&url, &["read-only", "this is a standby", "target_session_attrs=read-write"]).await;

    let primary = Cluster::begin(Cluster::options());
    let there = primary.database().await;
    let (first, second) = (cluster.port(), primary.port());
    // Both have a database of this name, and only one of them can be written to.
    assert_eq!(there.name(), database.name());
    let both = format!(
        "postgres://aether@127.0.0.1:{first},127.0.0.1:{second}/{}?target_session_attrs=read-write",
        there.name()
    );
    let engine = Engine::builder().postgres(&both).allow_missing_deps().start().await.unwrap();
    let run = engine.start::<hello>("primary".to_owned()).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "hello primary");
    engine.shutdown().await.unwrap();
}

/// PgBouncer 1.18 keeps no prepared statements: the store notices and sends them unprepared.
#[tokio::test]
async fn a_pooler_that_nobody_spoke_of_is_noticed() {
    let cluster = Cluster::shared();
    let database = cluster.database().await;
    let pooler = PgBouncer::before(cluster, 3);
    let engine =
        Engine::builder().postgres(pooler.url(database.name())).allow_missing_deps().start().await.unwrap();
    for n in 0..20 {
        let run = engine.start::<hello>(format!("number {n}")).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), format!("hello number {n}"));
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_database_without_unicode_and_one_of_a_newer_build_are_refused() {
    let cluster = Cluster::shared();
    cluster
        .sql(&["CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C' LOCALE_PROVIDER libc"
            .to_owned()])
        .await;
    says(&cluster.url("latin"), &["encoding LATIN1", "ENCODING 'UTF8'"]).await;
    let database = cluster.database().await;
    let admin = client(&database.url()).await;
    let newer =
        "CREATE SCHEMA aether; CREATE TABLE aether.schema_version(one int2 PRIMARY KEY, version int8);
                 INSERT INTO aether.schema_version VALUES (1, 4711)";
    admin.batch_execute(newer).await.unwrap();
    assert!(matches!(refused(&database.url()).await, StoreError::NewerSchema { found: 4711, .. }));
}

#[tokio::test]
async fn too_many_connections_are_named() {
    let cluster = Cluster::begin(Cluster::options().setting("max_connections", "6"));
    let database = cluster.database().await;
    let mut held = Vec::new();
    // The session that made the database may not be gone yet.
    while held.len() < 6 {
        if let Ok((client, connection)) = tokio_postgres::connect(&database.url(), NoTls).await {
            tokio::spawn(connection);
            held.push(client);
        }
    }
    says(&database.url(), &["too many clients", "PostgresOptions::connections", "max_connections"]).await;
}
