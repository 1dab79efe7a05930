//! A process that writes: it creates runs and appends to them, sends messages, claims what is due, reserves keys and keeps
//! values.
//!
//! Promise: a line is in its log exactly if the store has said that it is durable. Any error ends the process, but for that
//! of a store which is asked for a run of another process before that one has made it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aether_core::contract::Status;
use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::journal::event::NodeFinished;
use aether_core::payload::{Digest, Payload};
use aether_core::store::ledger::Reservation;
use aether_core::store::{
    Ack, Append, ClaimRequest, Created, Message, NewRun, Sent, StatusChange, Store, StoreError,
};
use jiff::Timestamp;

use crate::names::moving;

const LEASE: Duration = Duration::from_secs(60);
/// Runs that one process works on at a time.
const TASKS: usize = 3;
/// Appends to each of them.
const APPENDS: u64 = 10;

struct Writer {
    number: usize,
    store: Arc<dyn Store>,
    log: Mutex<File>,
    ends: AtomicBool,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn frame(name: &str) -> Frame {
    Frame::encode(&[NodeFinished { command: CommandId::new("0", name) }.into()]).unwrap()
}

fn code() -> CodeId {
    CodeId::of("shop", "flow", 3, "0011223344556677")
}

/// The run that a task has made as its `round`-th.
fn run_name(writer: usize, task: usize, round: u64) -> String {
    moving(&format!("w{writer}-{task}-{round}"))
}

pub(crate) async fn write(number: usize, urls: [&str; 2], log: &Path) {
    let store: Arc<dyn Store> = Arc::new(crate::open(urls, "writer").await);
    let log = Mutex::new(File::create(log).unwrap());
    let writer = Arc::new(Writer { number, store, log, ends: AtomicBool::new(false) });
    assert!(writer.store.register(&writer.worker(), LEASE, vec![code()]).await.unwrap());
    let mut tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let writer = writer.clone();
            tokio::spawn(async move { writer.make_runs(task).await })
        })
        .collect();
    let claims = writer.clone();
    tasks.push(tokio::spawn(async move { claims.claim().await }));
    let renews = writer.clone();
    tasks.push(tokio::spawn(async move { renews.renew().await }));
    // Until the test closes the pipe.
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
    writer.ends.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    writer.store.close().await.unwrap();
}

impl Writer {
    fn worker(&self) -> WorkerId {
        WorkerId::from(format!("writer-{}", self.number))
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn log(&self, line: &str) {
        writeln!(self.log.lock().unwrap(), "{line}").unwrap();
    }

    async fn renew(&self) {
        let mut renewed = Instant::now();
        while !self.ends() {
            match self.store.renew(&self.worker(), LEASE, Vec::new()).await {
                Ok(lost) => {
                    assert_eq!(lost, []);
                    renewed = Instant::now();
                }
                // A machine that stood for a moment: the lease is much longer.
                Err(StoreError::Unavailable { .. }) if renewed.elapsed() < LEASE / 2 => {}
                Err(error) => panic!("not renewed: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn make_runs(&self, task: usize) {
        let mut round = 0;
        while !self.ends() {
            let name = run_name(self.number, task, round);
            self.make_run(&name).await;
            let other = run_name((self.number + 1) % 3, task, round / 2);
            self.send(&other, &format!("m{}-{task}-{round}", self.number)).await;
            self.send(&name, &format!("n{}-{task}-{round}", self.number)).await;
            self.keep(&name).await;
            round += 1;
        }
    }

    async fn make_run(&self, name: &str) {
        let run = RunId::new(name).unwrap();
        let created = self.store.create(NewRun {
            id: run.clone(),
            workflow: "flow".into(),
            version: 3,
            code: code(),
            digest: Digest::of(&Payload::null()).unwrap(),
            parent: None,
            labels: Default::default(),
            traceparent: None,
            frame: frame("created"),
            at: at(0),
            owner: Some(self.worker()),
            parent_epoch: None,
            terms: Default::default(),
        });
        assert_eq!(created.await.unwrap(), Created::New, "{name}");
        self.log(&format!("created {name}"));
        // In pairs: the second is queued before the first is answered.
        for pair in 0..APPENDS / 2 {
            let (first, second) = (1 + pair * 2, 2 + pair * 2);
            let last = second == APPENDS;
            let one = self.append(&run, 1, first, None, Vec::new());
            let two = self.append(&run, 1, second, last.then(waiting), Vec::new());
            one.await;
            two.await;
        }
    }

    /// Appends an event; the answer is waited for by what is returned.
    fn append(
        &self,
        run: &RunId,
        epoch: Epoch,
        expected: Position,
        status: Option<StatusChange>,
        consumed: Vec<u64>,
    ) -> impl Future<Output = ()> + '_ {
        let (ack, reply) = Ack::awaited(run.clone(), expected + 1, Arc::default());
        self.store.append(Append {
            run: run.clone(),
            epoch,
            expected,
            at: at(3),
            frame: frame(&format!("event{expected}")),
            work: None,
            acquire: None,
            ledger: Vec::new(),
            status,
            consumed,
            waits: Vec::new(),
            code: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack,
        });
        let run = run.clone();
        async move {
            reply.await.unwrap().unwrap_or_else(|error| panic!("{run} at {expected}: {error}"));
            self.log(&format!("appended {run} {expected} {epoch}"));
        }
    }

    async fn send(&self, name: &str, id: &str) {
        let message =
            Message { seq: 0, id: id.into(), topic: "signal:x".into(), payload: Payload::null(), at: at(7) };
        match self.store.send(&RunId::new(name).unwrap(), message).await {
            Ok(Sent::Delivered) => self.log(&format!("sent {name} {id}")),
            Err(StoreError::UnknownRun { .. }) if !name.starts_with(&format!("w{}-", self.number)) => {}
            other => panic!("message {id} to {name}: {other:?}"),
        }
    }

    /// A store-wide key and a value, each in the bucket of its name.
    async fn keep(&self, name: &str) {
        let run = RunId::new(name).unwrap();
        let business_key = moving(&format!("store\tkey-{name}"));
        let key = IdempotencyKey::from(name.to_owned());
        let wanted = Reservation { business_key, run: run.clone(), key, epoch: 1, at: at(2), sealed: None };
        assert_eq!(self.store.reserve(wanted.clone(), None).await.unwrap(), wanted);
        assert_eq!(self.store.reservation(&wanted.business_key).await.unwrap(), Some(wanted.clone()));
        self.log(&format!("reserved {} {name}", wanted.business_key));
        self.store.put_blob(&run, "hash", name.as_bytes().to_vec()).await.unwrap();
        assert_eq!(self.store.blob(&run, "hash").await.unwrap(), Some(name.as_bytes().to_vec()));
        self.log(&format!("kept {name}"));
    }

    /// Claims what messages have woken, and consumes them.
    async fn claim(&self) {
        while !self.ends() {
            let request = ClaimRequest {
                worker: self.worker(),
                now: at(100),
                silent: Vec::new(),
                limit: 8,
                codes: vec![code()],
                only: None,
                adopt: Vec::new(),
                serves: Default::default(),
                others_first: false,
                lapsed_first: false,
            };
            let leases = match self.store.claim(request).await {
                // What it got is found by the next one.
                Err(StoreError::Unavailable { .. }) => Vec::new(),
                claimed => claimed.unwrap(),
            };
            if leases.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for lease in leases {
                let run = &lease.run.id;
                let messages = self.store.inbox(run, 0).await.unwrap();
                let seen = messages.last().map_or(0, |message| message.seq);
                let consumed = messages.iter().map(|message| message.seq).collect();
                let status = StatusChange { seen, ..waiting() };
                self.append(run, lease.run.epoch, lease.run.next, Some(status), consumed).await;
                for message in messages {
                    self.log(&format!("consumed {run} {}", message.id));
                }
            }
        }
    }
}

fn waiting() -> StatusChange {
    StatusChange { status: Status::Waiting, wake_at: None, release: true, seen: 0, notify: None }
}
