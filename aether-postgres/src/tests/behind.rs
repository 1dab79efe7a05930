//! Batches that are sent while another one is at the server.
//!
//! Promise: each test writes at least once in this way; how often is counted where the batch is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aether_core::id::Position;
use aether_core::store::{Ack, AppendError, Created, StoreError};
use aether_pg_tests::Cluster;
use futures_util::future::join_all;
use futures_util::poll;
use tokio::task::JoinHandle;

use super::proxy::Proxy;
use super::writer::{append, create, frame, write};
use super::{SOON, Table, options, run_id, until_some_more};
use crate::database::Database;

/// So many runs are written by two batches, each of them large enough.
const RUNS: usize = 80;

/// What an owner of runs has done: for each, how long its journal is as far as the owner was told, and how long it may be.
struct Told {
    runs: Vec<(String, Position, Position)>,
    /// Why it went no further.
    error: Option<AppendError>,
}

/// Runs that append again as soon as they are told.
struct Owners {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Told>>,
}

impl Owners {
    async fn begin(database: &Arc<Database>) -> Self {
        let names: Vec<String> = (0..RUNS).map(|n| format!("run{n}")).collect();
        join_all(names.iter().map(|name| create(database, name))).await;
        let stop = Arc::new(AtomicBool::new(false));
        let task = |(number, name)| tokio::spawn(own(database.clone(), number, name, stop.clone()));
        let tasks = names.into_iter().enumerate().map(task).collect();
        Self { stop, tasks }
    }

    async fn end(self) -> Vec<Told> {
        self.stop.store(true, Ordering::Relaxed);
        self.told().await
    }

    async fn told(self) -> Vec<Told> {
        join_all(self.tasks).await.into_iter().map(Result::unwrap).collect()
    }
}

fn text(name: &str, position: Position) -> String {
    format!("{name}/{position}")
}

/// Appends to a run, now and then without waiting, now and then where its journal does not end; from time to time it makes
/// another run and goes on with that.
async fn own(database: Arc<Database>, number: usize, mut name: String, stop: Arc<AtomicBool>) -> Told {
    let mut told = Told { runs: Vec::new(), error: None };
    let (mut next, mut sure) = (1, 1);
    for round in number.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if round % 13 == 0 {
            let (mut silent, _) = append(&run_id(&name), 1, next, "x");
            silent.frame = frame(&text(&name, next));
            silent.ack = Ack::silent(run_id(&name), next + 1, Arc::default());
            database.append(silent);
            next += 1;
        }
        if round % 97 == 0 {
            let stray = write(&database, &name, next + 1, |_| {}).await;
            let is_refused = matches!(&stray, Err(AppendError::WrongPosition { expected, found, .. })
                if (*expected, *found) == (next + 1, next));
            if !is_refused {
                told.error = stray.err();
                break;
            }
        }
        let own = frame(&text(&name, next));
        match write(&database, &name, next, |append| append.frame = own).await {
            Ok(receipt) => (next, sure) = (receipt.next, receipt.next),
            Err(error) => {
                told.error = Some(error);
                break;
            }
        }
        if round % 101 == 0 {
            let other = format!("run{number}-{round}");
            match database.clone().create(super::writer::new_run(&other), Vec::new(), None).await {
                Ok(created) => assert_eq!(created, Some(Created::New)),
                Err(_) => break,
            }
            told.runs.push((std::mem::replace(&mut name, other), sure, next));
            (next, sure) = (1, 1);
        }
    }
    told.runs.push((name, sure, next));
    told
}

/// Each journal holds what its owner was told, once and in order, and nothing else.
async fn judge(database: &Arc<Database>, told: &[Told]) {
    for (name, sure, most) in told.iter().flat_map(|told| &told.runs) {
        let frames = database.load(&run_id(name), 0).await.unwrap();
        assert!(
            (*sure..=*most).contains(&(frames.len() as u64)),
            "{name}: {} of {sure}..={most}",
            frames.len()
        );
        for (position, stored) in (1..).zip(&frames[1..]) {
            assert_eq!(stored.text, frame(&text(name, position)).text);
        }
        aether_core::journal::read_verified(&frames).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_append_is_written_once_when_the_answers_of_two_batches_are_lost() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), options()).await.unwrap();
    let owners = Owners::begin(&far).await;
    for round in 0..9 {
        until_some_more(&far).await;
        match round % 3 {
            0 => proxy.lose_after(round, 2),
            1 => proxy.cut(),
            // Both wait at the server when their connection breaks, and are carried out when nobody listens.
            _ => {
                let locking = table.begin().await;
                locking.batch_execute("LOCK TABLE journal IN SHARE MODE").await.unwrap();
                table.until_blocked(1).await;
                tokio::time::sleep(Duration::from_millis(30)).await;
                proxy.cut();
                locking.batch_execute("COMMIT").await.unwrap();
            }
        }
    }
    until_some_more(&far).await;
    let told = owners.end().await;
    for told in &told {
        assert_eq!(told.error, None);
    }
    judge(&far, &told).await;
    assert_eq!(far.close_writers().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_between_two_batches_tells_every_run_what_stands_in_its_journal() {
    let table = Table::lay().await;
    let owners = Owners::begin(&table.database).await;
    until_some_more(&table.database).await;
    assert_eq!(table.database.close_writers().await, Ok(()));
    let told = owners.told().await;
    for told in &told {
        let is_told = matches!(told.error, Some(AppendError::Store(StoreError::Closed { .. })) | None);
        assert!(is_told, "{:?}", told.error);
    }
    judge(&table.another().await, &told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_held_up_between_two_batches_holds_up_no_other() {
    let table = Table::with(options().lock_timeout(Duration::from_millis(50))).await;
    let owners = Owners::begin(&table.database).await;
    create(&table.database, "locked").await;
    for _ in 0..3 {
        until_some_more(&table.database).await;
        let locking = table.begin().await;
        locking.batch_execute("SELECT FROM runs WHERE id = 'locked' FOR UPDATE").await.unwrap();
        let database = table.database.clone();
        let next = table.number("SELECT count(*) FROM journal WHERE run = 'locked'").await;
        let held_up = tokio::spawn(async move {
            let runs = |append: &mut aether_core::store::Append| {
                append.status = super::writer::status(aether_core::contract::Status::Running, false);
            };
            write(&database, "locked", next.unsigned_abs(), runs).await
        });
        table.until_blocked(1).await;
        let frames = "SELECT count(*) FROM journal";
        let before = table.number(frames).await;
        let sent = || table.database.sent_behind.load(Ordering::Relaxed);
        let (sent_before, tries) = (sent(), Instant::now() + Duration::from_millis(200));
        // Also when it has been tried again and again, two batches are at the server.
        let goes_on = async {
            while table.number(frames).await < before + 1000
                || Instant::now() < tries
                || sent() < sent_before + 20
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, goes_on).await.expect("the others wait, too");
        assert!(!held_up.is_finished());
        locking.batch_execute("COMMIT").await.unwrap();
        held_up.await.unwrap().unwrap();
    }
    let told = owners.end().await;
    assert!(told.iter().all(|told| told.error.is_none()));
    judge(&table.database, &told).await;
}

/// Batches whose statements wait for a look at the ends of journals, with answers that are longer than a connection reads
/// ahead.
#[tokio::test]
async fn two_large_batches_that_look_for_their_journals_do_not_wait_for_each_other() {
    // Nothing but an answer ends a wait for one, and a full batch is sent at once.
    let table = Table::with(options().statement_timeout(Duration::ZERO).batch(1000)).await;
    let database = &table.database;
    let names: Vec<String> = (0..2600).map(|n| format!("run{n}")).collect();
    join_all(names.iter().map(|name| create(database, name))).await;
    create(database, "before").await;
    let sent_before = database.sent_behind.load(Ordering::Relaxed);
    for next in 1..4 {
        names.iter().for_each(|name| database.heads.forget(&run_id(name)));
        // All of a round is queued while a batch waits at the server.
        let locking = table.begin().await;
        locking.batch_execute("LOCK TABLE journal").await.unwrap();
        let mut before = Box::pin(write(database, "before", next, |_| {}));
        assert!(poll!(&mut before).is_pending());
        table.until_blocked(1).await;
        let mut all = Box::pin(join_all(names.iter().map(|name| {
            let own = frame(&text(name, next));
            write(database, name, next, |append| append.frame = own)
        })));
        assert!(poll!(&mut all).is_pending());
        locking.batch_execute("COMMIT").await.unwrap();
        before.await.unwrap();
        for answer in tokio::time::timeout(SOON, all).await.expect("the writer waits for itself") {
            assert_eq!(answer.unwrap().next, next + 1);
        }
    }
    assert!(database.sent_behind.load(Ordering::Relaxed) > sent_before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_while_the_server_goes_away_answers_everybody() {
    join_all([0, 1, 3].map(Duration::from_millis).map(close_without_a_server)).await;
}

/// Closes, and breaks the connections so much later.
async fn close_without_a_server(delay: Duration) {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), options()).await.unwrap();
    let owners = Owners::begin(&far).await;
    until_some_more(&far).await;
    // No answer comes any more, and then no connection is there any more.
    proxy.freeze();
    proxy.hold(true);
    let closing = far.clone();
    let closed = tokio::spawn(async move { closing.close_writers().await });
    tokio::time::sleep(delay).await;
    proxy.cut();
    let told = tokio::time::timeout(SOON, owners.told()).await.expect("an append is never answered");
    let closed = tokio::time::timeout(SOON, closed).await.unwrap().unwrap();
    let database = table.another().await;
    match closed {
        // All that was begun had been answered before the server went away.
        Ok(()) => judge(&database, &told).await,
        Err(StoreError::Unavailable { .. }) => judge_open(&database, &told).await,
        Err(other) => panic!("{other:?}"),
    }
}

/// As [`judge`], where nobody knows of the last appends whether they were made.
async fn judge_open(database: &Arc<Database>, told: &[Told]) {
    for (name, sure, most) in told.iter().flat_map(|told| &told.runs) {
        let frames = database.load(&run_id(name), 0).await.unwrap();
        let there = frames.len() as u64;
        assert!((*sure..=*most + 1).contains(&there), "{name}: {there} of {sure}..={most}");
        aether_core::journal::read_verified(&frames).unwrap();
    }
}
