//! Messages beside messages, and beside the end of their run.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::journal::Frame;
use aether_core::store::{Ack, Append, Sent, StatusChange};
use futures_util::future::join_all;

use super::writer::{status, write};
use super::{Table, at, message, names, options, request, run_id, send};
use crate::database::Database;
use crate::store::PostgresStore;

#[tokio::test]
async fn a_request_to_end_waits_for_the_end_and_learns_of_it() {
    let table = Table::lay().await;
    table.run("run", Some("first"), 0).await;
    for (end, expected) in [("ROLLBACK", Sent::Delivered), ("COMMIT", Sent::RunEnded(Status::Completed))] {
        let ending = table.begin().await;
        ending.batch_execute("UPDATE runs SET status = 3, owner = NULL WHERE id = 'run'").await.unwrap();
        let sent = {
            let database = table.database.clone();
            let request = message(end, "cancel");
            tokio::spawn(async move { send(&database, "run", &request).await.unwrap() })
        };
        table.until_blocked(1).await;
        ending.batch_execute(end).await.unwrap();
        assert_eq!(sent.await.unwrap(), expected, "{end}");
    }
    let inbox = table.database.inbox(&run_id("run"), 0).await.unwrap();
    assert_eq!(inbox.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["ROLLBACK"]);
    assert_eq!(table.number("SELECT ending FROM runs WHERE id = 'run'").await, 1);
}

#[tokio::test]
async fn messages_of_many_processes_to_one_run_get_numbers_of_their_own() {
    let table = Table::lay().await;
    table.run("run", Some("first"), 0).await;
    let others = [table.another().await, table.another().await];
    let sends = (0..60).map(|n| {
        let database = if n % 3 == 0 { &table.database } else { &others[n % 2] };
        // Each id is sent twice.
        let message = message(&format!("m{}", n / 2), "signal:x");
        async move { send(database, "run", &message).await.unwrap() }
    });
    let answers = join_all(sends).await;
    assert_eq!(answers.iter().filter(|sent| **sent == Sent::Delivered).count(), 30);
    assert_eq!(answers.iter().filter(|sent| **sent == Sent::Duplicate).count(), 30);
    let inbox = table.database.inbox(&run_id("run"), 0).await.unwrap();
    assert_eq!(inbox.iter().map(|message| message.seq).collect::<Vec<_>>(), (1..=30).collect::<Vec<_>>());
    assert_eq!(table.number("SELECT seq FROM due WHERE run = 'run'").await, 30);
}

#[tokio::test]
async fn a_number_is_not_used_again_after_its_message_was_consumed() {
    let table = Table::lay().await;
    table.run("run", Some("first"), 0).await;
    send(&table.database, "run", &message("a", "signal:x")).await.unwrap();
    table.client.batch_execute("UPDATE inbox SET consumed = 1, payload = ''").await.unwrap();
    send(&table.database, "run", &message("b", "signal:x")).await.unwrap();
    let inbox = table.database.inbox(&run_id("run"), 0).await.unwrap();
    assert_eq!(inbox.iter().map(|message| message.seq).collect::<Vec<_>>(), [2]);
    assert_eq!(send(&table.database, "run", &message("a", "signal:x")).await.unwrap(), Sent::Duplicate);
}

/// Suspends a run until a message with a higher number than `seen` comes.
async fn suspend(database: &Arc<Database>, run: &str, next: u64, seen: u64) {
    let (ack, reply) = Ack::awaited(run_id(run), next + 1, Arc::default());
    let append = Append {
        run: run_id(run),
        epoch: 1,
        expected: next,
        at: at(9),
        frame: Frame { count: 1, text: "[]".into() },
        work: None,
        acquire: None,
        ledger: Vec::new(),
        status: Some(StatusChange {
            status: Status::Waiting,
            wake_at: None,
            release: true,
            seen,
            notify: None,
        }),
        consumed: Vec::new(),
        waits: Vec::new(),
        code: None,
        unless_asked_to_end: false,
        renews: None,
        streams: Vec::new(),
        ack,
    };
    database.queue_append(Box::new(append.into()));
    reply.await.unwrap().unwrap();
}

/// Sends in a transaction that is still open.
async fn send_in(client: &tokio_postgres::Client, run: &str, id: &str) {
    let params: [crate::connection::Param<'_>; 6] =
        [&crate::shard::shard(run), &run, &id, &"signal:x", &"null", &super::micros(7)];
    client.query(crate::inbox::SEND.as_str(), &params).await.unwrap();
}

#[tokio::test]
async fn a_run_does_not_sleep_through_a_message_that_is_being_sent() {
    let table = Table::lay().await;
    for (name, end, expected) in [("a", "COMMIT", Some(at(7))), ("b", "ROLLBACK", None)] {
        // No row of `due` yet: neither waits for the other.
        table.run(name, Some("first"), 0).await;
        let sending = table.begin().await;
        send_in(&sending, name, "m").await;
        suspend(&table.database, name, 1, 0).await;
        sending.batch_execute(end).await.unwrap();
        let record = table.database.run_record(&run_id(name)).await.unwrap().unwrap();
        assert_eq!((record.owner, record.wake_at), (None, expected), "{name}");
    }
    for (name, end, is_due) in [("c", "COMMIT", true), ("d", "ROLLBACK", false)] {
        // The row of a message that was seen: the suspension waits for the one that is being sent.
        table.run(name, Some("first"), 0).await;
        send(&table.database, name, &message("seen", "signal:x")).await.unwrap();
        let sending = table.begin().await;
        send_in(&sending, name, "m").await;
        let suspended = {
            let database = table.database.clone();
            tokio::spawn(async move { suspend(&database, name, 1, 1).await })
        };
        table.until_blocked(1).await;
        sending.batch_execute(end).await.unwrap();
        suspended.await.unwrap();
        let record = table.database.run_record(&run_id(name)).await.unwrap().unwrap();
        assert_eq!((record.owner, record.wake_at.is_some()), (None, is_due), "{name}");
    }
}

#[tokio::test]
async fn a_locked_parent_waits_for_its_notices_alone() {
    let table = Table::lay().await;
    table.run("parent", None, 100).await;
    table.run("other", None, 100).await;
    let locking = table.begin().await;
    locking.batch_execute("SELECT FROM due WHERE run = 'parent' FOR UPDATE").await.unwrap();
    let _delivers = PostgresStore::connect_with(&table.url, options()).await.unwrap();
    // More than are delivered at once, before the one of another parent.
    let notices = "INSERT INTO notices SELECT 1, 'child' || n, 'parent', 7 FROM generate_series(1, 1200) n;
        INSERT INTO notices VALUES (2, 'child', 'other', 7)";
    table.client.batch_execute(notices).await.unwrap();
    let woken = |run: &str| format!("SELECT count(*) FROM due WHERE run = '{run}' AND notified");
    while table.number("SELECT count(*) FROM notices WHERE parent = 'other'").await > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(table.number(&woken("other")).await, 1);
    assert_eq!(table.number("SELECT count(*) FROM notices").await, 1200, "none is lost");
    locking.batch_execute("COMMIT").await.unwrap();
    while table.number("SELECT count(*) FROM notices").await > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(table.number(&woken("parent")).await, 1);
}

/// A worker writes that it executes a run while it already looks for the ends of the run's children. A notice that comes in
/// between is not forgotten by that write, or the run would sleep for ever.
#[tokio::test]
async fn a_notice_outlives_the_beginning_of_an_execution() {
    let table = Table::lay().await;
    table.run("parent", Some("first"), 0).await;
    let _delivers = PostgresStore::connect_with(&table.url, options()).await.unwrap();
    table.client.batch_execute("INSERT INTO notices VALUES (1, 'child', 'parent', 7)").await.unwrap();
    while table.number("SELECT count(*) FROM notices").await > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let executes = |append: &mut Append| {
        append.status = status(Status::Running, false).map(|to| StatusChange { wake_at: Some(at(9)), ..to });
    };
    write(&table.database, "parent", 1, executes).await.unwrap();
    suspend(&table.database, "parent", 2, 0).await;
    assert_eq!(names(&table.database.claim(&request("second", 9)).await.unwrap()), ["parent"]);
}
