//! How long claims take in a file where many runs are queued.
//!
//! `cargo bench -p aether-sqlite --bench queues -- QUEUED` queues so many runs under a thousand keys in a new file, and
//! prints the median and the 99th percentile of each operation in milliseconds. Each claim is committed and synced.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::time::{Duration, Instant};

use aether_core::id::{CodeId, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::payload::{Digest, Payload};
use aether_core::queue::{QueuePlace, Serves, StartTerms};
use aether_core::store::{ClaimRequest, Limit, LimitKind, NewRun, Store, StoreError};
use aether_sqlite::SqliteStore;
use jiff::Timestamp;

/// How many runs are created at the same time.
const AT_ONCE: usize = 1_000;

fn code() -> CodeId {
    CodeId::from("queued".to_owned())
}

fn new_run(no: usize) -> NewRun {
    let place = QueuePlace::new("q").unwrap().with_key(format!("key-{}", no % 1_000)).unwrap();
    NewRun {
        id: RunId::new(format!("queued-{no}")).unwrap(),
        workflow: "flow".into(),
        version: 1,
        code: code(),
        digest: Digest::of(&Payload::null()).unwrap(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: Frame { count: 1, text: "[]".into() },
        at: Timestamp::now(),
        owner: None,
        parent_epoch: None,
        terms: StartTerms { queue: Some(place), ..StartTerms::default() },
    }
}

fn claim(limit: usize) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::from("bench".to_owned()),
        now: Timestamp::now(),
        silent: Vec::new(),
        limit,
        codes: vec![code()],
        only: None,
        adopt: Vec::new(),
        serves: Serves::ALL,
        others_first: false,
        lapsed_first: false,
    }
}

/// Prints how long `ask` takes, called so many times.
async fn measure(what: &str, times: u64, ask: impl AsyncFn() -> Result<usize, StoreError>) {
    let (mut took, mut found) = (Vec::new(), 0);
    for _ in 0..times {
        let since = Instant::now();
        found += ask().await.unwrap();
        took.push(since.elapsed());
    }
    took.sort();
    let ms = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!("{what:<34} p50 {:>8.2}  p99 {:>8.2}   {found} found in {times} calls", ms(50), ms(99));
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().filter(|arg| arg != "--bench").collect();
    let [_, queued] = &args[..] else { return println!("queues QUEUED") };
    let queued: usize = queued.parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("agent.db")).unwrap();
    store.register(&WorkerId::from("bench".to_owned()), Duration::from_secs(60), Vec::new()).await.unwrap();
    for first in (0..queued).step_by(AT_ONCE) {
        let creations: Vec<_> =
            (first..queued.min(first + AT_ONCE)).map(|no| store.create(new_run(no))).collect();
        for created in creations {
            created.await.unwrap();
        }
    }
    println!("{queued} queued under 1,000 keys; milliseconds");
    let claims = async |what: &str| {
        measure(&format!("claim 1, {what}"), 200, async || Ok(store.claim(claim(1)).await?.len())).await;
        measure(&format!("claim 16, {what}"), 10, async || Ok(store.claim(claim(16)).await?.len())).await;
    };
    claims("no limit").await;
    for (pattern, kind) in [
        ("q", LimitKind::Running(100_000)),
        ("q/*", LimitKind::Running(50)),
        ("q", LimitKind::Starts { n: 100_000, per: Duration::from_secs(60) }),
    ] {
        store.put_limit(Limit::new(pattern, kind).unwrap()).await.unwrap();
    }
    claims("three limits").await;
    store.put_limit(Limit::new("q", LimitKind::Running(1)).unwrap()).await.unwrap();
    measure("claim, and the limit is reached", 200, async || Ok(store.claim(claim(1)).await?.len())).await;
    let last = RunId::new(format!("queued-{}", queued - 1)).unwrap();
    let position = async || Ok(store.queue_position(&last, Timestamp::now()).await?.iter().count());
    measure("position", 200, position).await;
    store.close().await.unwrap();
}
