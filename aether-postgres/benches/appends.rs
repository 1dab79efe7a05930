//! What the store itself writes per second, without an engine: runs of some steps, as an engine appends them.
//!
//! `cargo bench -p aether-postgres --bench appends -- URL[,URL..] tool|read RUNS STEPS INFLIGHT [WRITERS]`
//!
//! A tool step is one awaited append (300 bytes, which acquires a ledger row) and one that rides with the next (500 bytes,
//! which settles it); a read step is only the latter. Start and end of a run are awaited. Prints steps per second and how
//! long awaited appends took. Take figures on a database whose commits wait for the disk.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench fails with what it saw")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aether_core::contract::Status;
use aether_core::id::{CommandId, IdempotencyKey, InvocationId, Position, RunId};
use aether_core::journal::Frame;
use aether_core::payload::{Digest, Payload};
use aether_core::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate};
use aether_core::store::{Ack, Append, Created, DurableWatermark, NewRun, StatusChange, Store};
use aether_postgres::{PostgresOptions, PostgresStore};
use futures_util::future::join_all;
use jiff::Timestamp;

fn frame(kind: &str, at: Position, bytes: usize) -> Frame {
    let filler = "x".repeat(bytes - 40);
    let text = format!("[{{\"{kind}\":{{\"command\":\"{at}\",\"value\":\"{filler}\"}}}}]");
    Frame { count: 1, text }
}

/// One run: its store, its id, and its next position.
struct Drive<'s> {
    store: &'s PostgresStore,
    run: RunId,
    digest: Digest,
    next: Position,
    watermark: Arc<DurableWatermark>,
    times: Vec<Duration>,
}

impl Drive<'_> {
    fn append(&mut self, kind: &str, bytes: usize, ack: Ack) -> Append {
        let expected = self.next;
        self.next += 1;
        Append {
            run: self.run.clone(),
            epoch: 1,
            expected,
            at: Timestamp::UNIX_EPOCH,
            frame: frame(kind, expected, bytes),
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
        }
    }

    async fn awaited(&mut self, kind: &str, bytes: usize, change: impl FnOnce(&mut Append)) {
        let (ack, reply) = Ack::awaited(self.run.clone(), self.next + 1, self.watermark.clone());
        let mut append = self.append(kind, bytes, ack);
        change(&mut append);
        let since = Instant::now();
        self.store.append(append);
        reply.await.unwrap().unwrap();
        self.times.push(since.elapsed());
    }

    fn silent(&mut self, kind: &str, bytes: usize, change: impl FnOnce(&mut Append)) {
        let ack = Ack::silent(self.run.clone(), self.next + 1, self.watermark.clone());
        let mut append = self.append(kind, bytes, ack);
        change(&mut append);
        self.store.append(append);
    }

    async fn create(&mut self) {
        let new = NewRun {
            id: self.run.clone(),
            workflow: "w".into(),
            version: 1,
            code: Default::default(),
            digest: self.digest.clone(),
            parent: None,
            labels: Default::default(),
            traceparent: None,
            frame: frame("started", 0, 300),
            at: Timestamp::UNIX_EPOCH,
            owner: Some("me".to_owned().into()),
            parent_epoch: None,
            terms: Default::default(),
        };
        let since = Instant::now();
        assert_eq!(self.store.create(new).await.unwrap(), Created::New);
        self.times.push(since.elapsed());
    }

    fn entry(&self, step: usize) -> LedgerEntry {
        let command = CommandId::new(&step.to_string(), "charge_card");
        LedgerEntry {
            key: IdempotencyKey::new(&self.run, &command, 0),
            run: self.run.clone(),
            invocation: InvocationId::new(&command, 0),
            command,
            tool: "charge_card".into(),
            digest: self.digest.clone(),
            business_key: None,
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
            epoch: 1,
            started_at: Timestamp::UNIX_EPOCH,
            finished_at: None,
        }
    }

    async fn whole(mut self, steps: usize, tool: bool) -> Vec<Duration> {
        self.create().await;
        for step in 0..steps {
            let mut ledger = Vec::new();
            if tool {
                let entry = self.entry(step);
                let (status, result) = (LedgerStatus::Succeeded, Some(Payload::null()));
                ledger.push(LedgerUpdate {
                    key: entry.key.clone(),
                    status,
                    result,
                    error: None,
                    committed: true,
                });
                let otherwise = frame("refused", self.next, 300);
                self.awaited("intent", 300, |append| append.acquire = Some(Acquire { entry, otherwise }))
                    .await;
            }
            self.silent("outcome", 500, |append| append.ledger = ledger);
        }
        let status =
            StatusChange { status: Status::Completed, wake_at: None, release: true, seen: 0, notify: None };
        self.awaited("completed", 200, |append| append.status = Some(status)).await;
        self.times
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [url, kind, numbers @ ..] = &args[..] else { return println!("see the top of the source") };
    let number = |at: usize, other| numbers.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(other);
    let (runs, steps, inflight, writers) = (number(0, 100), number(1, 10), number(2, 1), number(3, 1));
    let options = PostgresOptions::new().writers(writers);
    let urls: Vec<_> = url.split(',').enumerate().map(|(at, url)| (at.to_string(), url)).collect();
    let store = match urls.as_slice() {
        [_one] => PostgresStore::connect_with(url, options).await.unwrap(),
        _ => PostgresStore::connect_all_with(urls, options).await.unwrap(),
    };
    if url.contains(',') {
        store.rebalance().await.unwrap();
    }
    let tag = Timestamp::now().as_microsecond();
    let digest = Digest::of(&Payload::null()).unwrap();
    let (since, next) = (Instant::now(), AtomicUsize::new(0));
    let lanes = (0..inflight).map(|_| async {
        let mut times = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= runs {
                return times;
            }
            let run = RunId::new(format!("{tag:x}-{number:08x}")).unwrap();
            let (digest, watermark) = (digest.clone(), Arc::new(DurableWatermark::from(1)));
            let drive = Drive { store: &store, run, digest, next: 1, watermark, times: Vec::new() };
            times.extend(drive.whole(steps, kind == "tool").await);
        }
    });
    let mut times = join_all(lanes).await.concat();
    let speed = (runs * steps) as f64 / since.elapsed().as_secs_f64();
    times.sort();
    let ms = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
    println!("{kind}: {speed:.0} steps/s, an awaited append p50 {:.2} p99 {:.2} ms", ms(50), ms(99));
    store.close().await.unwrap();
}
