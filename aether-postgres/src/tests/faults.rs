//! What one run's fault costs the others, and the writer afterwards.

use std::time::{Duration, Instant};

use aether_core::contract::Status;
use aether_core::store::{Append, AppendError, Renewal, StoreError};
use aether_pg_tests::Cluster;
use futures_util::future::join_all;

use super::proxy::Proxy;
use super::writer::{create, new_run, status, write};
use super::{Table, message, options, send};
use crate::database::Database;

/// Also on a slow machine.
const SOON: Duration = Duration::from_secs(120);

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

/// An appended event of `bad` that the server cannot write, as where a page of an index is damaged.
const DAMAGE: &str = "CREATE FUNCTION aether.damaged() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'XX001'; END $$;
    CREATE TRIGGER damaged BEFORE INSERT ON aether.journal FOR EACH ROW WHEN (NEW.run = 'bad' AND NEW.frame > 0)
        EXECUTE FUNCTION aether.damaged()";

#[tokio::test]
async fn damage_holds_up_its_own_run_alone() {
    let table = Table::lay().await;
    for name in ["a", "bad"] {
        create(&table.database, name).await;
    }
    table.client.batch_execute(DAMAGE).await.unwrap();
    let database = table.database.clone();
    let held_up = tokio::spawn(async move { write(&database, "bad", 1, |_| {}).await });
    let others = async {
        for position in 1..=50 {
            write(&table.database, "a", position, |_| {}).await.unwrap();
        }
    };
    tokio::time::timeout(SOON, others).await.expect("the damage of one run holds up another");
    assert!(!held_up.is_finished());
    table.client.batch_execute("DROP TRIGGER damaged ON aether.journal").await.unwrap();
    assert_eq!(tokio::time::timeout(SOON, held_up).await.unwrap().unwrap().unwrap().next, 2);
}

/// The frames whose answers were lost are looked for together: one of them that cannot be read stops no other append.
#[tokio::test]
async fn damage_stops_no_append_of_others_after_a_lost_connection() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), options()).await.unwrap();
    for name in ["first", "a", "bad", "c"] {
        create(&far, name).await;
        write(&far, name, 1, |_| {}).await.unwrap();
    }
    proxy.hold(true);
    // The answer to the first batch comes through.
    proxy.lose_after(1, 1);
    let queue = |name| {
        let far = far.clone();
        tokio::spawn(async move { write(&far, name, 2, |_| {}).await })
    };
    // Both are queued while that waits at the server, and go together.
    let locking = table.begin().await;
    locking.batch_execute("LOCK TABLE journal").await.unwrap();
    let first = queue("first");
    table.until_blocked(1).await;
    let writes = ["a", "bad"].map(queue);
    tokio::task::yield_now().await;
    locking.batch_execute("COMMIT").await.unwrap();
    first.await.unwrap().unwrap();
    while table.number("SELECT count(*) FROM journal WHERE frame = 2").await < 3 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let damage = "UPDATE journal SET chain = 'short' WHERE run = 'bad' AND frame = 2";
    table.client.batch_execute(damage).await.unwrap();
    proxy.hold(false);
    let [a, bad] = writes;
    let a = tokio::time::timeout(SOON, a).await.expect("the damage of one run holds up another");
    assert_eq!(a.unwrap().unwrap().next, 3);
    tokio::time::timeout(SOON, write(&far, "c", 2, |_| {})).await.unwrap().unwrap();
    let bad = tokio::time::timeout(SOON, bad).await.unwrap().unwrap();
    assert!(matches!(bad, Err(AppendError::Store(StoreError::Corrupt { .. }))), "{bad:?}");
    assert_eq!(table.number("SELECT count(*) FROM journal WHERE frame = 2").await, 4, "each is there once");
}

/// A table that is rewritten, or indexed, holds up all at once.
#[tokio::test]
async fn many_appends_that_are_held_up_are_written_soon_after() {
    let table = Table::lay().await;
    let names: Vec<String> = (0..200).map(|n| format!("run{n}")).collect();
    join_all(names.iter().map(|name| create(&table.database, name))).await;
    create(&table.database, "free").await;
    let rewriting = table.begin().await;
    rewriting.batch_execute("LOCK TABLE runs IN SHARE MODE").await.unwrap();
    let held_up: Vec<_> = names
        .iter()
        .map(|name| {
            let (database, name) = (table.database.clone(), name.clone());
            let ends = |append: &mut Append| append.status = status(Status::Completed, true);
            tokio::spawn(async move { write(&database, &name, 1, ends).await })
        })
        .collect();
    table.until_blocked(1).await;
    let mut longest = Duration::ZERO;
    let began = Instant::now();
    for position in 1.. {
        let asked = Instant::now();
        write(&table.database, "free", position, |_| {}).await.unwrap();
        longest = longest.max(asked.elapsed());
        if began.elapsed() > Duration::from_secs(8) {
            break;
        }
    }
    let released = Instant::now();
    rewriting.batch_execute("COMMIT").await.unwrap();
    for answer in tokio::time::timeout(SOON, join_all(held_up)).await.expect("they are written too late") {
        answer.unwrap().unwrap();
    }
    let took = released.elapsed();
    println!("another run waited up to {longest:?}; all were written {took:?} after the lock");
    // One after the other, each behind its own wait for the lock, they would take a quarter of an hour.
    assert!(longest < SOON, "another run waited for {longest:?}");
    assert!(took < SOON, "they were written {took:?} after the lock was gone");
}

/// A migration, or a bucket that is moved, holds tables for seconds.
#[tokio::test]
async fn a_creation_that_is_held_up_waits_as_long_as_for_a_server_that_is_away() {
    let table = Table::with(options().patience(SOON * 10).lock_timeout(Duration::from_millis(100))).await;
    let (brief, url) = (Duration::from_millis(500), table.url.clone());
    let hasty = Database::open(&url, options().patience(brief).lock_timeout(brief)).await.unwrap();
    let locking = table.begin().await;
    locking.batch_execute("LOCK TABLE runs IN SHARE MODE").await.unwrap();
    let database = table.database.clone();
    let patient = tokio::spawn(async move {
        create(&database, "a").await;
        write(&database, "a", 1, |_| {}).await
    });
    // Tried one after the other, in groups, they would be told after minutes.
    let hasty = (0..200).map(|n| hasty.clone().create(new_run(&format!("b{n}")), Vec::new(), None));
    let refused = tokio::time::timeout(SOON / 4, join_all(hasty)).await.expect("they wait for too long");
    assert!(refused.iter().all(|refused| matches!(refused, Err(StoreError::Locked { .. }))), "{refused:?}");
    // What is in the way was looked for long enough by then, and was there still.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!patient.is_finished());
    locking.batch_execute("COMMIT").await.unwrap();
    let written = tokio::time::timeout(SOON, patient).await.expect("it is created too late").unwrap();
    assert_eq!(written.unwrap().next, 2);
    assert_eq!(table.number("SELECT count(*) FROM runs").await, 1);
}

/// After a failover a name may still lead to a standby. A session keeps the settings that it began with: nothing is written
/// before there is another connection, whether this one was refused or is found out by what is written.
#[tokio::test]
async fn a_connection_that_takes_no_writes_is_given_up() {
    for portable in [false, true] {
        let brief = options().patience(Duration::from_millis(500)).portable(portable);
        let table = Table::with(brief).await;
        create(&table.database, "run").await;
        let name: String =
            table.client.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
        let set = |what: &str| vec![format!("ALTER DATABASE \"{name}\" {what}")];
        Cluster::shared().sql(&set("SET default_transaction_read_only = on")).await;
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        table.number(ended).await;
        let database = table.database.clone();
        let waiting = tokio::spawn(async move { write(&database, "run", 1, |_| {}).await });
        let sent = send(&table.database, "run", &message("m", "signal:x")).await;
        let Err(StoreError::ReadOnly { reason, .. }) = sent else { panic!("{sent:?}") };
        assert!(reason.contains("this is a standby, or is set to read-only"), "{reason}");
        assert!(!waiting.is_finished());
        Cluster::shared().sql(&set("RESET default_transaction_read_only")).await;
        let written = tokio::time::timeout(SOON, waiting).await.expect("nothing is written any more");
        assert_eq!(written.unwrap().unwrap().next, 2, "portable: {portable}");
        send(&table.database, "run", &message("m", "signal:x")).await.unwrap();
    }
}
