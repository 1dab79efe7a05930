//! What several processes do at the same time, played with real connections: transactions that are open while the store
//! does something, and answers that are lost on the way.
//!
//! Promise: each test has a database of its own; what it waits for, it waits for in the server, and not by the clock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use aether_core::id::{CodeId, RunId, WorkerId};
use aether_core::store::{ClaimRequest, Lease, Message, Sent, SilentWorker, StoreError};
use aether_pg_tests::Cluster;
use jiff::Timestamp;
use tokio_postgres::{Client, NoTls};

use crate::database::Database;
use crate::error::LostAnswer;
use crate::opening::Opening;
use crate::options::PostgresOptions;
use crate::shard::shard;

mod behind;
mod claims;
mod closing;
mod damage;
mod databases;
mod faults;
mod inbox;
mod lost_answers;
mod opening;
mod patience;
mod proxy;
mod purging;
mod queues;
mod steps;
mod workers;
mod writer;

const LEASE: Duration = Duration::from_secs(60);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn micros(seconds: i64) -> i64 {
    at(seconds).as_microsecond()
}

fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn worker(name: &str) -> WorkerId {
    WorkerId::from(name.to_owned())
}

fn code(name: &str) -> CodeId {
    CodeId::of("shop", name, 3, "0011223344556677")
}

fn options() -> PostgresOptions {
    PostgresOptions::new().patience(Duration::from_secs(180))
}

/// Also on a slow machine.
const SOON: Duration = Duration::from_secs(120);

/// Waits until some more batches were sent behind others.
async fn until_some_more(database: &Database) {
    let sent = || database.sent_behind.load(std::sync::atomic::Ordering::Relaxed);
    let before = sent();
    let more = async {
        while sent() < before + 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, more).await.expect("no batch is sent behind another one");
}

/// A database with the store's tables, and a connection of the test's own.
struct Table {
    url: String,
    database: Arc<Database>,
    client: Client,
    _ends_writers: Opening,
    _own: aether_pg_tests::Database<'static>,
}

impl Table {
    async fn lay() -> Self {
        Self::with(options()).await
    }

    async fn with(options: PostgresOptions) -> Self {
        let own = Cluster::shared().database().await;
        let url = own.url();
        let database = Database::open(&url, options).await.unwrap();
        let client = connect(&url).await;
        let _ends_writers = Opening::of(&database);
        Self { url, database, client, _ends_writers, _own: own }
    }

    /// Another process.
    async fn another(&self) -> Arc<Database> {
        Database::open(&self.url, options()).await.unwrap()
    }

    /// A connection of the test's own, with an open transaction.
    async fn begin(&self) -> Client {
        let client = connect(&self.url).await;
        client.batch_execute("BEGIN").await.unwrap();
        client
    }

    /// An open run with one frame: held, or free and due then.
    async fn run(&self, name: &str, owner: Option<&str>, wake_at: i64) {
        let status: i16 = i16::from(owner.is_some());
        let made = "INSERT INTO runs(shard, id, place, workflow, version, code, parked, status, digest, created_at, labels,
                epoch, owner)
            SELECT $1::int2, $2::text, coalesce(max(place), 0) + 4096, 'flow', 3, $3::text, false, $4::int2,
                repeat('0', 64), $5::int8, '{}', $6::int8, $7::text FROM runs";
        let epoch = i64::from(owner.is_some());
        let digest = "UPDATE runs SET digest = $1::text WHERE id = $2::text";
        let text = serde_json::to_value(
            aether_core::payload::Digest::of(&aether_core::payload::Payload::null()).unwrap(),
        );
        let text = text.unwrap().as_str().unwrap().to_owned();
        let (of, code) = (shard(name), code("flow"));
        let client = &self.client;
        let params: [crate::connection::Param<'_>; 7] =
            [&of, &name, &code.as_str(), &status, &micros(wake_at), &epoch, &owner];
        client.execute(made, &params).await.unwrap();
        client.execute(digest, &[&text, &name]).await.unwrap();
        self.frame(&self.client, name, 0, epoch).await;
        if owner.is_none() {
            let due = "INSERT INTO due VALUES ($1::int2, $2::text, $3::int8, $4::text, 0, false)";
            client.execute(due, &[&of, &name, &micros(wake_at), &code.as_str()]).await.unwrap();
        }
    }

    /// What an append of one event inserts.
    async fn frame(&self, client: &Client, run: &str, frame: i64, epoch: i64) {
        let sql = "INSERT INTO journal VALUES ($1::int2, $2::text, $3::int8, $3, 1, $4::int8, $5::int8, false, '[]',
            decode(repeat('00', 32), 'hex'))";
        client.execute(sql, &[&shard(run), &run, &frame, &micros(0), &epoch]).await.unwrap();
    }

    /// One number that a statement gives.
    async fn number(&self, sql: &str) -> i64 {
        self.client.query_typed(sql, &[]).await.unwrap()[0].get(0)
    }

    /// Waits until so many sessions of this database wait for a lock.
    async fn until_blocked(&self, sessions: i64) {
        let sql = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted
            AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
        while self.number(sql).await < sessions {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET search_path = aether").await.unwrap();
    client
}

fn request(name: &str, now: i64) -> ClaimRequest {
    ClaimRequest {
        worker: worker(name),
        now: at(now),
        silent: Vec::new(),
        limit: 10,
        codes: vec![code("flow")],
        only: None,
        adopt: Vec::new(),
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    }
}

/// A claim by a worker that has seen `former` silent.
fn takeover(name: &str, now: i64, former: &str, renewals: u64) -> ClaimRequest {
    ClaimRequest { silent: vec![SilentWorker { id: worker(former), renewals }], ..request(name, now) }
}

fn names(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.run.id.as_str()).collect()
}

fn message(id: &str, topic: &str) -> Message {
    Message {
        seq: 0,
        id: id.into(),
        topic: topic.into(),
        payload: aether_core::payload::Payload::null(),
        at: at(7),
    }
}

async fn send(database: &Database, run: &str, message: &Message) -> Result<Sent, StoreError> {
    database.send(&run_id(run), message, &LostAnswer::default()).await
}
