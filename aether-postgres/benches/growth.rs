//! How long claims, starts and lists take in a database with many runs.
//!
//! `cargo bench -p aether-postgres --bench growth -- URL ENDED WAITING` fills an empty database with so many runs that have
//! ended, and that wait, and prints the median and the 99th percentile of each operation in milliseconds. With a fourth
//! number, so many runs are queued under a thousand keys, and claims from the queue are measured too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::time::{Duration, Instant};

use aether_core::contract::Status;
use aether_core::id::{CodeId, RunId, WorkerId};
use aether_core::journal::Frame;
use aether_core::payload::{Digest, Payload};
use aether_core::queue::{QueuePlace, StartTerms};
use aether_core::store::{
    ClaimRequest, ForeignRuns, Limit, LimitKind, Message, NewRun, RunFilter, Store, StoreError, WaitFilter,
};
use aether_postgres::PostgresStore;
use jiff::Timestamp;
use tokio_postgres::NoTls;

/// Half of the waiting runs wait for a time that is far away, the others for a message; one in a hundred is due.
const FILL: &str = "
SET search_path = aether; SET synchronous_commit = off;
INSERT INTO runs SELECT (hashint4(n) & 4095)::int2, md5(n::text), (1600000000000000 + n * 1000::int8) << 12, 'flow-' || n % 5, 1,
    'code-' || n % 3, false, CASE WHEN n > ENDED THEN 2 WHEN n % 50 = 0 THEN 4 ELSE 3 END, repeat('d', 64), NULL,
    1600000000000000 + n * 1000::int8, CASE WHEN n <= ENDED THEN 1600000000500000 + n * 1000::int8 END, '{}', NULL, 1, NULL, NULL
    FROM generate_series(1, ENDED + WAITING) n;
INSERT INTO journal SELECT shard, id, f, f, 1, created_at, 1, f = 1 AND status > 2, repeat('e', 200),
    decode(repeat('00', 32), 'hex') FROM runs, generate_series(0, 1) f;
INSERT INTO due SELECT shard, id, CASE WHEN (place >> 12) / 1000 % 100 = 1 THEN created_at ELSE 9000000000000000 + place % 1000000 END,
    code, 0, false FROM runs WHERE status = 2 AND (place >> 12) / 1000 % 2 = 1;
INSERT INTO waits SELECT shard, id, '1:x', place, 'timer', 'x', 0, NULL, NULL, 'null' FROM runs WHERE status = 2;
UPDATE runs SET digest = 'DIGEST';
VACUUM ANALYZE;
";

/// As many runs as that one which waits in the queue.
const QUEUE: &str = "
SET search_path = aether; SET synchronous_commit = off;
INSERT INTO runs SELECT r.shard, 'queued-' || n, r.place + n::int8 * 4096, r.workflow, r.version, r.code, r.parked, r.status,
    r.digest, r.parent, r.created_at, r.ended_at, r.labels, r.traceparent, r.epoch, r.owner, r.ending, r.terms, r.queue,
    'key-' || n % 1000, r.rank + n, r.begun, r.slot, r.started_at, r.lapses_at FROM runs r, generate_series(1, QUEUED) n
    WHERE r.id = 'own-900000';
INSERT INTO due SELECT d.shard, 'queued-' || n, d.wake_at, d.code, 0, false, d.queue, d.ready, 'key-' || n % 1000, d.begun,
    d.rank + n, d.place + n::int8 * 4096 FROM due d, generate_series(1, QUEUED) n WHERE d.run = 'own-900000';
INSERT INTO journal SELECT j.shard, 'queued-' || n, 0, 0, 1, j.at, 0, false, j.events, j.chain
    FROM journal j, generate_series(1, QUEUED) n WHERE j.run = 'own-900000';
VACUUM ANALYZE;
";

fn worker() -> WorkerId {
    WorkerId::from("bench".to_owned())
}

fn digest() -> Digest {
    Digest::of(&Payload::null()).unwrap()
}

fn new_run(n: u64, owner: Option<WorkerId>) -> NewRun {
    NewRun {
        id: RunId::new(format!("own-{n}")).unwrap(),
        workflow: "own".into(),
        version: 1,
        code: CodeId::from("own".to_owned()),
        digest: digest(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: Frame { count: 1, text: "[]".into() },
        at: Timestamp::now(),
        owner,
        parent_epoch: None,
        terms: Default::default(),
    }
}

fn claim(limit: usize, code: &str) -> ClaimRequest {
    ClaimRequest {
        worker: worker(),
        now: Timestamp::now(),
        silent: Vec::new(),
        limit,
        codes: vec![CodeId::from(code.to_owned())],
        only: None,
        adopt: Vec::new(),
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    }
}

/// Prints how long `ask` takes, called so many times with a number.
async fn measure(what: &str, times: u64, mut ask: impl AsyncFnMut(u64) -> Result<usize, StoreError>) {
    let mut took = Vec::new();
    let mut found = 0;
    for n in 0..times {
        let since = Instant::now();
        found += ask(n).await.unwrap();
        took.push(since.elapsed());
    }
    took.sort();
    let ms = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!("{what:<34} p50 {:>8.2}  p99 {:>8.2}   {found} found in {times} calls", ms(50), ms(99));
}

async fn fill(url: &str, ended: &str, waiting: &str) {
    let digest = serde_json::to_value(digest()).unwrap().as_str().unwrap().to_owned();
    execute(url, &FILL.replace("ENDED", ended).replace("WAITING", waiting).replace("DIGEST", &digest)).await;
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for statement in sql.split(";\n").filter(|statement| !statement.trim().is_empty()) {
        client.batch_execute(statement).await.unwrap();
    }
}

/// Claims from a queue of so many runs, without limits and with some.
async fn measure_queue(store: &PostgresStore, url: &str, queued: &str) {
    let place = QueuePlace::new("q").unwrap().with_key("key-0").unwrap();
    let terms = StartTerms { queue: Some(place), ..StartTerms::default() };
    let new = new_run(900_000, None);
    store.create(NewRun { code: CodeId::from("queued".to_owned()), terms, ..new }).await.unwrap();
    execute(url, &QUEUE.replace("QUEUED", queued)).await;
    println!("{queued} queued under 1,000 keys");
    let claims = async |what: &str| {
        let one = async |_| Ok(store.claim(claim(1, "queued")).await?.len());
        measure(&format!("claim 1, {what}"), 200, one).await;
        let many = async |_| Ok(store.claim(claim(16, "queued")).await?.len());
        measure(&format!("claim 16, {what}"), 10, many).await;
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
    measure("claim, and the limit is reached", 200, async |_| {
        Ok(store.claim(claim(1, "queued")).await?.len())
    })
    .await;
    let run = RunId::new("own-900000").unwrap();
    measure("position", 200, async |_| {
        Ok(store.queue_position(&run, Timestamp::now()).await?.iter().count())
    })
    .await;
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().filter(|arg| arg != "--bench").collect();
    let [_, url, ended, waiting, queued @ ..] = &args[..] else {
        return println!("growth URL ENDED WAITING [QUEUED], for an empty database");
    };
    let store = PostgresStore::connect(url).await.unwrap();
    fill(url, ended, waiting).await;
    println!("{ended} ended, {waiting} waiting; milliseconds");
    store.register(&worker(), Duration::from_secs(60), Vec::new()).await.unwrap();
    if let [queued] = queued {
        measure_queue(&store, url, queued).await;
    }
    measure("start, held", 1_000, async |n| store.create(new_run(n, Some(worker()))).await.map(|_| 1)).await;
    measure("start, free", 1_000, async |n| store.create(new_run(10_000 + n, None)).await.map(|_| 1)).await;
    measure("claim 1 of 1,000", 500, async |_| Ok(store.claim(claim(1, "own")).await?.len())).await;
    measure("claim 32 of what is due", 15, async |_| Ok(store.claim(claim(32, "own")).await?.len())).await;
    measure("claim 10 of 1,000 that were due long", 30, async |_| {
        Ok(store.claim(claim(10, "code-1")).await?.len())
    })
    .await;
    measure("claim, nothing due", 500, async |_| Ok(store.claim(claim(10, "none")).await?.len())).await;
    measure("next wake", 500, async |_| Ok(store.next_wake().await?.iter().count())).await;
    let foreign =
        |due| ForeignRuns { codes: vec![CodeId::from("own".to_owned())], due, after: None, limit: 50 };
    let due = || Some((Timestamp::now(), Vec::new()));
    measure("due runs of other code", 100, async |_| Ok(store.foreign(foreign(due())).await?.len())).await;
    measure("open runs of other code", 100, async |_| Ok(store.foreign(foreign(None)).await?.len())).await;
    let signal = |n| Message {
        seq: 0,
        id: format!("m{n}"),
        topic: "signal:x".into(),
        payload: Payload::null(),
        at: Timestamp::now(),
    };
    let target = |n| RunId::new(format!("own-{n}")).unwrap();
    measure("message", 500, async |n| store.send(&target(n), signal(n)).await.map(|_| 1)).await;
    measure("unread of 2,000 held runs", 50, async |_| Ok(store.unread_held(&worker()).await?.len())).await;
    measure("unread of waiting runs", 50, async |_| Ok(store.unread_waiting(None, 100).await?.len())).await;
    measure("workers", 100, async |_| Ok(store.workers().await?.len())).await;
    let page = || RunFilter::new().limit(50);
    measure("newest 50 runs", 100, async |_| Ok(store.runs(page()).await?.len())).await;
    let failed = || page().workflow("flow-2").status(Status::Failed);
    measure("50 failed ones of a workflow", 100, async |_| Ok(store.runs(failed()).await?.len())).await;
    measure("ids with a prefix", 20, async |_| Ok(store.runs(page().id_prefix("abc")).await?.len())).await;
    measure("50 open waits", 100, async |_| Ok(store.waits(WaitFilter::default().limit(50)).await?.len()))
        .await;
    measure("retire, 2,000 held", 1, async |_| store.retire(&worker()).await.map(|()| 1)).await;
    store.close().await.unwrap();
}
