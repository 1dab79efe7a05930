//! The Postgres store keeps every rule of the conformance suite.

#![allow(clippy::unwrap_used, reason = "a test fails with what it saw")]

use std::sync::Arc;

use aether_pg_tests::Cluster;
use aether_postgres::{PostgresOptions, PostgresStore};
use aether_testing::conformance::Fixture;

async fn store(options: PostgresOptions) -> Fixture {
    let cluster = Cluster::shared();
    let prepare = async |url: String| {
        drop(PostgresStore::connect(&url).await.unwrap());
    };
    let database = cluster.database_from("conformance", prepare).await;
    let store = PostgresStore::connect_with(&database.url(), options).await.unwrap();
    Fixture::new(Arc::new(store)).keeping(database)
}

aether_testing::store_suite!(postgres, async || store(PostgresOptions::new()).await);
aether_testing::store_suite!(unprepared, async || store(PostgresOptions::new().pooler(true)).await);
aether_testing::store_suite!(two_writers, async || store(PostgresOptions::new().writers(2)).await);
