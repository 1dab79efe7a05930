//! The Postgres store keeps every rule of the conformance suite in other ways of reaching a server: where every transaction
//! is serializable and nothing but what other servers speak is used, and through a real PgBouncer in transaction mode,
//! whether the store is told of it or has to find out.

#![allow(clippy::unwrap_used, reason = "a store that cannot be opened fails its tests")]

use std::sync::{Arc, OnceLock};

use aether_core::store::Store as _;
use aether_pg_tests::{Cluster, Database, PgBouncer};
use aether_postgres::{PostgresOptions, PostgresStore};
use aether_testing::conformance::Fixture;

/// A database with the store's tables.
async fn database() -> Database<'static> {
    let prepare = async |url: String| {
        let store = PostgresStore::connect(&url).await.unwrap();
        store.close().await.unwrap();
    };
    Cluster::shared().database_from("ways", prepare).await
}

async fn fixture(database: Database<'static>, url: &str, options: PostgresOptions) -> Fixture {
    let store = PostgresStore::connect_with(url, options).await.unwrap();
    Fixture::new(Arc::new(store)).keeping(database)
}

async fn portable(options: PostgresOptions) -> Fixture {
    let database = database().await;
    let serializable = "SET default_transaction_isolation = 'serializable'";
    Cluster::shared().sql(&[format!("ALTER DATABASE \"{}\" {serializable}", database.name())]).await;
    let url = database.url();
    fixture(database, &url, options.portable(true)).await
}

async fn pooled(options: PostgresOptions) -> Fixture {
    static POOLER: OnceLock<PgBouncer> = OnceLock::new();
    let database = database().await;
    let url = POOLER.get_or_init(|| PgBouncer::before(Cluster::shared(), 10)).url(database.name());
    fixture(database, &url, options).await
}

aether_testing::store_suite!(portable_and_serializable, async || portable(PostgresOptions::new()).await);
aether_testing::store_suite!(through_pgbouncer, async || pooled(PostgresOptions::new().pooler(true)).await);
aether_testing::store_suite!(through_an_unknown_pgbouncer, async || pooled(PostgresOptions::new()).await);
