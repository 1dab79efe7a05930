//! The SQLite store keeps every rule of the conformance suite.

use std::sync::Arc;

use aether_sqlite::SqliteStore;
use aether_testing::conformance::Fixture;

aether_testing::store_suite!(sqlite, async || {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("agent.db")).unwrap();
    Fixture::new(Arc::new(store)).keeping(folder)
});
