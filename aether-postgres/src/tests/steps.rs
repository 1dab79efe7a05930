//! Transaction steps while answers are lost and other workers claim their runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::id::{CommandId, IdempotencyKey};
use aether_core::journal::Frame;
use aether_core::store::{Ack, Append, AppendError, AppendReply, Rollback, StoreError, Work};
use aether_pg_tests::Cluster;

use super::proxy::Proxy;
use super::{LEASE, Table, at, names, options, run_id, takeover, worker};
use crate::database::Database;
use crate::work::session::session_of;

type Told = Arc<dyn Fn() + Send + Sync>;

/// Writes a note, and says when it does.
struct Note {
    key: IdempotencyKey,
    calls: Arc<AtomicU32>,
    then: Told,
}

impl std::fmt::Debug for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Note")
    }
}

impl Work for Note {
    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(20))
    }

    fn call(&mut self) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let session = session_of(&self.key).unwrap();
        let written = session.count("INSERT INTO public.notes VALUES ('written')", &[]);
        (self.then)();
        written.is_ok()
    }

    fn frame(&mut self, undone: Option<Rollback>) -> Result<Frame, StoreError> {
        let text = if undone.is_some() { r#"["undone"]"# } else { r#"["kept"]"# };
        Ok(Frame { count: 1, text: text.to_owned() })
    }
}

/// An append with a note, at epoch 1 and position 1.
fn note(name: &str, calls: &Arc<AtomicU32>, then: Told) -> (Append, AppendReply) {
    let (ack, reply) = Ack::awaited(run_id(name), 2, Arc::default());
    let key = IdempotencyKey::new(&run_id(name), &CommandId::from("0:note".to_owned()), 0);
    let append = Append {
        run: run_id(name),
        epoch: 1,
        expected: 1,
        at: at(3),
        frame: Frame { count: 1, text: String::new() },
        work: Some(Box::new(Note { key, calls: calls.clone(), then })),
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

/// A table with a run that `first` holds, and a process that reaches it through a proxy.
async fn held() -> (Table, Proxy, Arc<Database>) {
    let table = Table::lay().await;
    table.client.batch_execute("CREATE TABLE public.notes(text text)").await.unwrap();
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    table.run("run", Some("first"), 0).await;
    let proxy = Proxy::before(Cluster::shared().port()).await;
    let name = table.url.rsplit('/').next().unwrap();
    let far = Database::open(&proxy.url(name), options()).await.unwrap();
    (table, proxy, far)
}

const NOTES: &str = "SELECT count(*) FROM public.notes";
const KEPT: &str = "SELECT count(*) FROM journal WHERE run = 'run' AND events = '[\"kept\"]'";

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_found() {
    let (table, proxy, far) = held().await;
    let calls = Arc::new(AtomicU32::new(0));
    let proxy = Arc::new(proxy);
    let lossy = proxy.clone();
    // The next answer that ends a transaction is that of the step's commit.
    let (append, reply) = note("run", &calls, Arc::new(move || lossy.lose(1)));
    far.append(append);
    reply.await.unwrap().unwrap();
    assert_eq!((proxy.left(), calls.load(Ordering::SeqCst)), (0, 1), "it was called once");
    assert_eq!((table.number(NOTES).await, table.number(KEPT).await), (1, 1));
}

#[tokio::test]
async fn a_server_that_dies_before_the_commit_has_kept_nothing() {
    let (table, _proxy, far) = held().await;
    let calls = Arc::new(AtomicU32::new(0));
    let (count, url) = (calls.clone(), table.url.clone());
    let then = move || {
        if count.load(Ordering::SeqCst) == 1 {
            // Every other session of this database is ended, that of the step among them.
            let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'";
            let url = url.clone();
            tokio::runtime::Handle::current().block_on(async move {
                super::connect(&url).await.batch_execute(sql).await.unwrap();
            });
        }
    };
    let (append, reply) = note("run", &calls, Arc::new(then));
    far.append(append);
    reply.await.unwrap().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2, "it was called again");
    assert_eq!((table.number(NOTES).await, table.number(KEPT).await), (1, 1));
}

#[tokio::test]
async fn a_worker_that_lost_the_run_calls_nothing() {
    let (table, _proxy, far) = held().await;
    let calls = Arc::new(AtomicU32::new(0));
    let leases = table.database.claim(&takeover("second", 5, "first", 0)).await.unwrap();
    assert_eq!(names(&leases), ["run"]);
    let (append, reply) = note("run", &calls, Arc::new(|| ()));
    far.append(append);
    let error = reply.await.unwrap().unwrap_err();
    assert!(matches!(error, AppendError::StaleEpoch { held: 1, found: 2, .. }), "{error}");
    assert_eq!((calls.load(Ordering::SeqCst), table.number(NOTES).await), (0, 0));
}

#[tokio::test]
async fn a_claim_does_not_come_between_a_body_and_its_commit() {
    let (table, _proxy, far) = held().await;
    let calls = Arc::new(AtomicU32::new(0));
    let (began, begun) = mpsc::channel();
    let (go, on) = mpsc::channel::<()>();
    let on = std::sync::Mutex::new(on);
    let then = move || {
        began.send(()).unwrap();
        on.lock().unwrap().recv().unwrap();
    };
    let (append, reply) = note("run", &calls, Arc::new(then));
    far.append(append);
    tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
    let other = table.database.clone();
    let claim = tokio::spawn(async move { other.claim(&takeover("second", 5, "first", 0)).await });
    // Either it waits for the lock of the run, or it leaves the run out.
    tokio::time::sleep(Duration::from_millis(200)).await;
    go.send(()).unwrap();
    reply.await.unwrap().unwrap();
    let mut leases = claim.await.unwrap().unwrap();
    if leases.is_empty() {
        leases = table.database.claim(&takeover("second", 5, "first", 0)).await.unwrap();
    }
    assert_eq!((names(&leases), leases[0].run.epoch), (vec!["run"], 2));
    assert_eq!((table.number(NOTES).await, table.number(KEPT).await), (1, 1));
    assert_eq!(table.number("SELECT position FROM journal WHERE run = 'run' AND count = 0").await, 2);
}

/// A run has two appends before a step. The first one is held up by a lock, the second one by another; in between the
/// second one is neither among what is held up nor in a batch.
#[tokio::test]
async fn a_step_waits_for_all_that_is_held_up_of_its_run() {
    let table = Table::with(options().lock_timeout(Duration::from_millis(100))).await;
    table.client.batch_execute("CREATE TABLE public.notes(text text)").await.unwrap();
    table.run("run", Some("first"), 0).await;
    let (of_run, of_frame) = (table.begin().await, table.begin().await);
    of_run.batch_execute("SELECT FROM runs WHERE id = 'run' FOR UPDATE").await.unwrap();
    table.frame(&of_frame, "run", 2, 1).await;
    let status = |append: &mut Append| append.status = super::writer::status(Status::Running, false);
    let queue = |position: u64| {
        let (mut append, reply) = super::writer::append(&run_id("run"), 1, position, "x");
        status(&mut append);
        table.database.append(append);
        reply
    };
    let first = queue(1);
    table.until_blocked(1).await;
    let second = queue(2);
    let calls = Arc::new(AtomicU32::new(0));
    let (mut append, mut reply) = note("run", &calls, Arc::new(|| {}));
    append.expected = 3;
    table.database.append(append);
    // Long enough for the first one to be set aside.
    tokio::time::sleep(Duration::from_millis(500)).await;
    of_run.batch_execute("COMMIT").await.unwrap();
    first.await.unwrap().unwrap();
    let early = tokio::time::timeout(Duration::from_millis(500), &mut reply).await;
    assert!(early.is_err(), "the step did not wait: {early:?}");
    of_frame.batch_execute("ROLLBACK").await.unwrap();
    second.await.unwrap().unwrap();
    reply.await.unwrap().unwrap();
    assert_eq!((table.number(NOTES).await, calls.load(Ordering::SeqCst)), (1, 1));
}
