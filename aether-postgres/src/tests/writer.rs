//! Appends beside other transactions, other owners, lost answers and a server that dies.

use std::sync::Arc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::{CommandId, Epoch, IdempotencyKey, InvocationId, Position, RunId};
use aether_core::journal::Frame;
use aether_core::payload::{Digest, Payload};
use aether_core::store::ledger::{Acquire, LedgerEntry, LedgerStatus};
use aether_core::store::{
    Ack, Append, AppendError, AppendReply, Created, NewRun, Receipt, StatusChange, StoreError,
};
use aether_pg_tests::{Cluster, Stop};
use futures_util::future::join_all;
use futures_util::poll;
use tokio::sync::oneshot;

use super::proxy::Proxy;
use super::{SOON, Table, at, code, connect, options, run_id, takeover, until_some_more, worker};
use crate::database::Database;
use crate::writer::Op;

pub(super) fn frame(text: &str) -> Frame {
    Frame { count: 1, text: format!("[{{\"node_finished\":{{\"command\":\"{text}\"}}}}]") }
}

pub(super) fn new_run(name: &str) -> NewRun {
    NewRun {
        id: run_id(name),
        workflow: "flow".into(),
        version: 3,
        code: code("flow"),
        digest: Digest::of(&Payload::null()).unwrap(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: frame("start"),
        at: at(0),
        owner: Some(worker("first")),
        parent_epoch: None,
        terms: Default::default(),
    }
}

pub(super) async fn create(database: &Arc<Database>, name: &str) {
    assert_eq!(database.clone().create(new_run(name), Vec::new(), None).await.unwrap(), Some(Created::New));
}

pub(super) fn append(run: &RunId, epoch: Epoch, expected: Position, text: &str) -> (Append, AppendReply) {
    let (ack, reply) = Ack::awaited(run.clone(), expected + 1, Arc::default());
    let append = Append {
        run: run.clone(),
        epoch,
        expected,
        at: at(3),
        frame: frame(text),
        work: None,
        acquire: None,
        ledger: Vec::new(),
        status: None,
        consumed: Vec::new(),
        waits: Vec::new(),
        code: None,
        unless_asked_to_end: false,
        renews: None,
        streams: Vec::new(),
        ack,
    };
    (append, reply)
}

pub(super) async fn write(
    database: &Arc<Database>,
    name: &str,
    expected: Position,
    change: impl FnOnce(&mut Append),
) -> Result<Receipt, AppendError> {
    let (mut append, reply) = append(&run_id(name), 1, expected, "x");
    change(&mut append);
    database.append(append);
    reply.await.unwrap()
}

pub(super) fn status(status: Status, release: bool) -> Option<StatusChange> {
    Some(StatusChange { status, wake_at: None, release, seen: 0, notify: None })
}

/// A ledger row whose business key is this.
fn acquire(name: &str, business_key: &str) -> Acquire {
    let command = CommandId::new("0", "charge");
    let entry = LedgerEntry {
        key: IdempotencyKey::new(&run_id(name), &command, 0),
        run: run_id(name),
        invocation: InvocationId::new(&command, 0),
        command,
        tool: "charge".into(),
        digest: Digest::of(&Payload::null()).unwrap(),
        business_key: Some(business_key.into()),
        status: LedgerStatus::Started,
        result: None,
        error: None,
        committed: false,
        epoch: 1,
        started_at: at(2),
        finished_at: None,
    };
    Acquire { entry, otherwise: frame("refused") }
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_is_found_and_not_written_twice() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), options()).await.unwrap();
    create(&far, "a").await;
    create(&far, "b").await;
    // Prepares what follows, so that the lost reply is that of the append.
    write(&far, "a", 1, |append| append.acquire = Some(acquire("a", "one"))).await.unwrap();
    proxy.lose(1);
    let other = |append: &mut Append| append.frame = frame("y");
    let (a, b) = tokio::join!(write(&far, "a", 2, |_| {}), write(&far, "b", 1, other));
    assert_eq!((a.unwrap().next, b.unwrap().next), (3, 2));
    assert_eq!(proxy.left(), 0);
    assert_eq!(table.number("SELECT sum(count)::int8 FROM journal WHERE run = 'a'").await, 3);
    assert_eq!(table.number("SELECT count(*) FROM journal WHERE run = 'b'").await, 2);
    assert_eq!(far.close_writers().await, Ok(()), "all of it was written");
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_is_answered_as_new() {
    let table = Table::lay().await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let far = Database::open(&proxy.url(table.url.rsplit('/').next().unwrap()), options()).await.unwrap();
    create(&far, "first").await;
    proxy.lose(1);
    create(&far, "second").await;
    assert_eq!(proxy.left(), 0);
    assert_eq!(table.number("SELECT count(*) FROM runs").await, 2);
    let again = far.clone().create(new_run("second"), Vec::new(), None).await.unwrap();
    assert!(matches!(again, Some(Created::Existing(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_owner_was_told_is_written_stands_before_the_fence_of_the_next() {
    let table = Table::lay().await;
    let other = table.another().await;
    let names: Vec<String> = (0..48).map(|n| format!("run{n}")).collect();
    table.database.register(&worker("first"), super::LEASE, &[]).await.unwrap();
    join_all(names.iter().map(|name| create(&table.database, name))).await;
    let owner = join_all(names.iter().map(|name| async {
        let mut next = 1;
        while write(&table.database, name, next, |_| {}).await.is_ok() {
            next += 1;
        }
        next
    }));
    let claims = async {
        while table.number("SELECT max(position) FROM journal").await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut leases = Vec::new();
        while leases.len() < names.len() {
            leases.extend(other.claim(&takeover("second", 100, "first", 0)).await.unwrap());
        }
        leases
    };
    let (told, leases) = tokio::join!(owner, claims);
    for lease in &leases {
        let number: usize = lease.run.id.as_str()["run".len()..].parse().unwrap();
        assert_eq!((lease.run.next, lease.run.epoch), (told[number], 2), "{}", lease.run.id);
    }
    assert!(table.number("SELECT max(position) FROM journal WHERE epoch = 1").await > 0);
    let behind = "SELECT count(*) FROM journal j JOIN journal f ON f.run = j.run AND f.epoch = 2
        WHERE j.epoch = 1 AND j.frame > f.frame";
    assert_eq!(table.number(behind).await, 0, "nothing of the old owner stands behind a fence");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_survive_a_server_that_dies_again_and_again() {
    // Few share one batch; of many, a batch is sent while another one is at the server.
    for runs in [24, 80] {
        appends_survive(runs).await;
    }
}

async fn appends_survive(runs: usize) {
    let cluster = tokio::task::spawn_blocking(|| Cluster::begin(Cluster::options().durable())).await.unwrap();
    let cluster = Arc::new(cluster);
    let database = Database::open(&cluster_url(&cluster), options()).await.unwrap();
    let names: Vec<String> = (0..runs).map(|n| format!("run{n}")).collect();
    join_all(names.iter().map(|name| create(&database, name))).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let owners: Vec<_> = names
        .iter()
        .map(|name| {
            let (database, name, stop) = (database.clone(), name.clone(), stop.clone());
            tokio::spawn(async move {
                let mut next = 1;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let text = format!("{name}/{next}");
                    write(&database, &name, next, |append| append.frame = frame(&text)).await.unwrap();
                    next += 1;
                }
                next
            })
        })
        .collect();
    for how in [Stop::Immediate, Stop::Killed, Stop::Immediate] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        if runs > 32 {
            until_some_more(&database).await;
        }
        let cluster = cluster.clone();
        tokio::task::spawn_blocking(move || cluster.restart(how)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for (name, told) in names.iter().zip(join_all(owners).await) {
        let frames = database.load(&run_id(name), 0).await.unwrap();
        assert_eq!(frames.len() as u64, told.unwrap(), "{name}: each append is there once");
        for (number, stored) in frames.iter().enumerate().skip(1) {
            assert_eq!(stored.text, frame(&format!("{name}/{number}")).text);
        }
        aether_core::journal::read_verified(&frames).unwrap();
    }
}

fn cluster_url(cluster: &Cluster) -> String {
    cluster.url("postgres")
}

#[tokio::test]
async fn a_suspension_never_sleeps_through_a_message_that_is_being_sent() {
    let table = Table::lay().await;
    for (name, there) in [("row", true), ("no-row", false)] {
        create(&table.database, name).await;
        let due = format!(
            "INSERT INTO due SELECT shard, id, 5, code, 0, false FROM runs WHERE id = '{name}'
             ON CONFLICT (shard, run) DO UPDATE SET wake_at = least(due.wake_at, 5)"
        );
        if there {
            table.client.batch_execute(&due).await.unwrap();
        }
        // What a message writes.
        let sending = table.begin().await;
        let inbox = format!(
            "INSERT INTO inbox SELECT shard, id, 1, 'm', 'signal:x', 'null', 7, NULL FROM runs WHERE id = '{name}';
             INSERT INTO due SELECT shard, id, 7, code, 1, false FROM runs WHERE id = '{name}'
             ON CONFLICT (shard, run) DO UPDATE SET wake_at = least(due.wake_at, 7), seq = 1"
        );
        sending.batch_execute(&inbox).await.unwrap();
        let database = table.database.clone();
        let suspended = tokio::spawn(async move {
            write(&database, name, 1, |append| append.status = status(Status::Waiting, true)).await
        });
        if there {
            table.until_blocked(1).await;
        }
        sending.batch_execute("COMMIT").await.unwrap();
        suspended.await.unwrap().unwrap();
        let seq = format!("SELECT seq FROM due WHERE run = '{name}'");
        assert_eq!(table.number(&seq).await, 1, "{name}: the message keeps the run due");
    }
}

#[tokio::test]
async fn a_run_does_not_end_past_a_request_that_is_being_sent() {
    let table = Table::lay().await;
    for (end, asked) in [("ROLLBACK", false), ("COMMIT", true)] {
        create(&table.database, end).await;
        let sending = table.begin().await;
        let request = format!(
            "INSERT INTO inbox SELECT shard, id, 1, 'm', 'cancel', 'null', 7, NULL FROM runs WHERE id = '{end}';
             UPDATE runs SET ending = 1 WHERE id = '{end}'"
        );
        sending.batch_execute(&request).await.unwrap();
        let database = table.database.clone();
        let ended = tokio::spawn(async move {
            write(&database, end, 1, |append| {
                append.status = status(Status::Completed, true);
                append.unless_asked_to_end = true;
            })
            .await
        });
        table.until_blocked(1).await;
        sending.batch_execute(end).await.unwrap();
        let answer = ended.await.unwrap();
        let refused = matches!(answer, Err(AppendError::AskedToEnd { .. }));
        assert_eq!((refused, answer.is_ok()), (asked, !asked), "{end}: {answer:?}");
    }
}

#[tokio::test]
async fn a_row_that_somebody_has_locked_holds_up_its_own_run_alone() {
    let table = Table::with(options().lock_timeout(Duration::from_millis(100))).await;
    for name in ["locked", "a", "b"] {
        create(&table.database, name).await;
    }
    let locking = table.begin().await;
    locking.batch_execute("SELECT FROM runs WHERE id = 'locked' FOR UPDATE").await.unwrap();
    let database = table.database.clone();
    let held_up = tokio::spawn(async move {
        let ends = |append: &mut Append| append.status = status(Status::Completed, true);
        write(&database, "locked", 1, ends).await
    });
    table.until_blocked(1).await;
    for name in ["a", "b"] {
        let ends = |append: &mut Append| append.status = status(Status::Completed, true);
        tokio::time::timeout(Duration::from_secs(120), write(&table.database, name, 1, ends))
            .await
            .unwrap()
            .unwrap();
    }
    assert!(!held_up.is_finished());
    locking.batch_execute("COMMIT").await.unwrap();
    assert_eq!(held_up.await.unwrap().unwrap().next, 2);
}

#[tokio::test]
async fn what_is_held_up_does_not_slow_the_others() {
    // The timeouts of everybody who sets none: a batch that waited for the lock each time would take seconds.
    let table = Table::lay().await;
    for name in ["locked", "a"] {
        create(&table.database, name).await;
    }
    let locking = table.begin().await;
    locking.batch_execute("SELECT FROM runs WHERE id = 'locked' FOR UPDATE").await.unwrap();
    let database = table.database.clone();
    let held_up = tokio::spawn(async move {
        let ends = |append: &mut Append| append.status = status(Status::Completed, true);
        write(&database, "locked", 1, ends).await
    });
    table.until_blocked(1).await;
    let others = async {
        for position in 1..=200 {
            write(&table.database, "a", position, |_| {}).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), others).await.unwrap();
    assert!(!held_up.is_finished());
    locking.batch_execute("COMMIT").await.unwrap();
    assert_eq!(held_up.await.unwrap().unwrap().next, 2);
}

#[tokio::test]
async fn what_is_queued_is_written_while_a_body_blocks_every_thread() {
    let table = Table::lay().await;
    create(&table.database, "a").await;
    let (append, reply) = append(&run_id("a"), 1, 1, "x");
    table.database.append(append);
    let url = table.url.clone();
    // The runtime has this thread alone.
    let looking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = connect(&url).await;
            let written = async {
                while client.query("SELECT FROM journal WHERE run = 'a'", &[]).await.unwrap().len() < 2 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(SOON, written).await.expect("nothing is written");
        });
    });
    looking.join().unwrap();
    assert_eq!(reply.await.unwrap().unwrap().next, 2);
}

#[tokio::test]
async fn what_waits_for_a_runs_appends_waits_for_its_creation_too() {
    let table = Table::lay().await;
    create(&table.database, "first").await;
    let locking = table.begin().await;
    locking.batch_execute("LOCK TABLE journal").await.unwrap();
    let database = table.database.clone();
    let first = tokio::spawn(async move { write(&database, "first", 1, |_| {}).await });
    table.until_blocked(1).await;
    // Both are queued when the writer looks again.
    let (database, (reply, answered)) = (table.database.clone(), oneshot::channel());
    let mut created = Box::pin(database.create(new_run("new"), Vec::new(), None));
    assert!(poll!(&mut created).is_pending());
    let writers = table.database.writers.get().unwrap();
    writers.send("new", Op::Barrier(run_id("new"), reply)).unwrap();
    // Nothing can be created until after the barrier would have been lowered.
    let creating = table.begin().await;
    creating.batch_execute("LOCK TABLE runs").await.unwrap();
    locking.batch_execute("COMMIT").await.unwrap();
    first.await.unwrap().unwrap();
    table.until_blocked(1).await;
    let mut answered = Box::pin(answered);
    assert!(poll!(&mut answered).is_pending());
    creating.batch_execute("COMMIT").await.unwrap();
    answered.await.unwrap();
    assert!(table.database.heads.get(&run_id("new")).is_some());
    assert_eq!(created.await.unwrap(), Some(Created::New));
}

#[tokio::test]
async fn a_value_that_postgres_cannot_store_fails_alone() {
    let table = Table::lay().await;
    let names: Vec<String> = (0..20).map(|n| format!("run{n}")).collect();
    join_all(names.iter().map(|name| create(&table.database, name))).await;
    let answers = join_all(names.iter().enumerate().map(|(number, name)| {
        let key = if number == 7 { "a\0b" } else { "ab" };
        write(&table.database, name, 1, move |append| append.acquire = Some(acquire(name, key)))
    }))
    .await;
    for (number, answer) in answers.iter().enumerate() {
        let poisoned = matches!(answer, Err(AppendError::Store(StoreError::Unencodable { .. })));
        assert_eq!(poisoned, number == 7, "{number}: {answer:?}");
    }
    let Err(error) = &answers[7] else { panic!("the poisoned append was written") };
    assert!(error.to_string().contains("U+0000"), "{error}");
    // The run goes on where it was.
    write(&table.database, "run7", 1, |_| {}).await.unwrap();
    let new = NewRun { workflow: "a\0b".into(), ..new_run("bad") };
    assert!(matches!(
        table.database.clone().create(new, Vec::new(), None).await,
        Err(StoreError::Unencodable { .. })
    ));
}

#[tokio::test]
async fn what_waits_at_a_close_without_a_server_is_answered() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::begin(Cluster::options())).await.unwrap();
    let cluster = Arc::new(cluster);
    let database = Database::open(&cluster_url(&cluster), options()).await.unwrap();
    create(&database, "a").await;
    let stopped = cluster.clone();
    tokio::task::spawn_blocking(move || stopped.stop(Stop::Immediate)).await.unwrap();
    let waiting = write(&database, "a", 1, |_| {});
    let closed = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        database.close_writers().await
    };
    let (answer, closed) = tokio::join!(waiting, closed);
    assert!(matches!(answer, Err(AppendError::Store(StoreError::Unavailable { .. }))), "{answer:?}");
    assert!(closed.is_err());
}

#[tokio::test]
async fn a_part_of_a_journal_is_what_lies_between_two_positions() {
    let table = Table::lay().await;
    create(&table.database, "a").await;
    let (mut next, mut counts) = (1, vec![(0_u64, 1_u64)]);
    for number in 0..40_u64 {
        // Frames of none to three events.
        let count = number % 4;
        let (mut append, reply) = append(&run_id("a"), 1, next, "x");
        append.frame.count = u32::try_from(count).unwrap();
        table.database.append(append);
        reply.await.unwrap().unwrap();
        if count > 0 {
            counts.push((next, count));
        }
        next += count;
    }
    for from in 0..next + 2 {
        let whole: Vec<u64> =
            counts.iter().filter(|(at, count)| at + count > from).map(|(position, _)| *position).collect();
        let loaded = table.database.load(&run_id("a"), from).await.unwrap();
        assert_eq!(loaded.iter().map(|frame| frame.position).collect::<Vec<_>>(), whole, "from {from}");
        for events in [1, 2, 7, 100] {
            let page = table.database.load_page(&run_id("a"), from, events).await.unwrap();
            let end = whole.first().map_or(0, |first| from.max(*first) + events);
            let expected: Vec<u64> = whole.iter().copied().filter(|at| *at < end).collect();
            let found: Vec<u64> = page.iter().map(|frame| frame.position).collect();
            assert_eq!(found, expected, "{events} from {from}");
        }
    }
    assert!(table.database.load_page(&run_id("nobody"), 3, 10).await.unwrap().is_empty());
}
