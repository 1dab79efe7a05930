//! A store that closes while something cannot be written.

use std::sync::Arc;
use std::time::Duration;

use aether_core::store::{AppendError, StoreError};
use aether_pg_tests::Cluster;

use super::proxy::Proxy;
use super::writer::{create, write};
use super::{Table, options};
use crate::database::Database;

/// Also on a slow machine.
const SOON: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_close_says_that_something_was_held_up_until_its_end() {
    let table = Table::with(options().lock_timeout(Duration::from_millis(100))).await;
    create(&table.database, "a").await;
    let locking = table.begin().await;
    locking.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
    let database = table.database.clone();
    let held_up = tokio::spawn(async move { write(&database, "a", 1, |_| {}).await });
    table.until_blocked(1).await;
    let closed = tokio::time::timeout(SOON, table.database.close_writers()).await.unwrap();
    assert!(closed.is_err());
    assert!(matches!(held_up.await.unwrap(), Err(AppendError::Store(error)) if Err(error.clone()) == closed));
}

/// A server whose machine is frozen still has a network that takes what is sent.
#[tokio::test]
async fn a_close_does_not_wait_for_a_server_that_is_frozen() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let brief = options().statement_timeout(Duration::from_secs(1));
    let far: Arc<Database> =
        Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), brief).await.unwrap();
    create(&far, "a").await;
    // Prepares the statement, which needs answers.
    write(&far, "a", 1, |_| {}).await.unwrap();
    proxy.freeze();
    let database = far.clone();
    let writing = tokio::spawn(async move { write(&database, "a", 2, |_| {}).await });
    // Its append is made before the store closes.
    let made = async {
        while table.number("SELECT count(*) FROM journal WHERE run = 'a'").await < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, made).await.unwrap();
    let closed = tokio::time::timeout(SOON, far.close_writers()).await.expect("it waits for ever");
    assert!(matches!(closed, Err(StoreError::Unavailable { .. })), "{closed:?}");
    assert!(!writing.is_finished(), "nobody knows");
}
