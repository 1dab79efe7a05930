//! What one run's fault costs the others, and the writer afterwards.

use std::time::Duration;

use aether_core::contract::Status;
use aether_core::store::{Append, AppendError, Renewal, StoreError};

use super::writer::{create, status, write};
use super::{Table, options};

const SOON: Duration = Duration::from_secs(20);

fn renews(append: &mut Append, workflow: &str) {
    append.status = status(Status::Running, false);
    append.renews = Some(Renewal { workflow: workflow.into(), version: 4, began: 0 });
}

/// A batch with a new generation is a transaction of several requests: an error in it leaves the transaction open.
#[tokio::test]
async fn a_new_generation_that_is_refused_leaves_the_writer_as_it_was() {
    let table = Table::lay().await;
    for name in ["a", "b"] {
        create(&table.database, name).await;
    }
    let refused = write(&table.database, "a", 1, |append| renews(append, "a\0b")).await;
    assert!(matches!(refused, Err(AppendError::Store(StoreError::Unencodable { .. }))), "{refused:?}");
    tokio::time::timeout(SOON, write(&table.database, "b", 1, |_| {})).await.unwrap().unwrap();
    tokio::time::timeout(SOON, write(&table.database, "a", 1, |append| renews(append, "next")))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_new_generation_whose_run_somebody_has_locked_is_written_later() {
    let table = Table::with(options().lock_timeout(Duration::from_millis(100))).await;
    for name in ["a", "b"] {
        create(&table.database, name).await;
    }
    let locking = table.begin().await;
    locking.batch_execute("SELECT FROM runs WHERE id = 'a' FOR UPDATE").await.unwrap();
    let database = table.database.clone();
    let held_up =
        tokio::spawn(async move { write(&database, "a", 1, |append| renews(append, "next")).await });
    table.until_blocked(1).await;
    tokio::time::timeout(SOON, write(&table.database, "b", 1, |_| {})).await.unwrap().unwrap();
    locking.batch_execute("COMMIT").await.unwrap();
    assert_eq!(held_up.await.unwrap().unwrap().next, 2);
}
