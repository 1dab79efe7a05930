//! Buckets are moved to and fro between two databases while three processes write, and the process that moves them is
//! killed with `kill -9`, at random and at each point of a move.
//!
//! Promise: real Postgres, real processes. What a writer was told is durable is there once, in one of the databases, when
//! all is over. The program is its own child: `moves writer ..` and `moves mover ..` are what the test starts and kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aether_core::store::Store;
use aether_pg_tests::{Cluster, Database};
use aether_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

mod judge;
mod names;
mod writer;

const NAME: &str = "nothing_is_lost_while_buckets_move";
/// Runs are made in these buckets, so that each is moved often and is full when it is.
const BUCKETS: u16 = 12;
/// How long the mover is killed at random, at least.
const CHAOS: Duration = Duration::from_secs(10);
/// How long a slow machine may take for anything.
const SLOW: Duration = Duration::from_secs(180);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match arguments.as_slice() {
        ["writer", number, first, second, log] => {
            end_with_a_panic(Path::new(log));
            runtime.block_on(writer::write(number.parse().unwrap(), [first, second], Path::new(log)));
        }
        ["mover", first, second] => runtime.block_on(to_and_fro([first, second])),
        ["mover", first, second, bucket, to] => {
            runtime.block_on(async {
                let bucket = bucket.parse::<u16>().unwrap();
                let moved = open([first, second], "mover").await.move_buckets(bucket..bucket + 1, to).await;
                assert_eq!(moved.unwrap(), 1);
            });
        }
        // As the test harness of Rust is asked for its tests.
        ["--list", ..] => println!("{NAME}: test"),
        _ => {
            let test = AssertUnwindSafe(|| runtime.block_on(nothing_is_lost_while_buckets_move()));
            let tested = std::panic::catch_unwind(test);
            let Ok(found) = tested else {
                println!("test {NAME} ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored");
                std::process::exit(101);
            };
            println!("test {NAME} ... ok ({found})\n\ntest result: ok. 1 passed; 0 failed; 0 ignored");
        }
    }
}

/// A writer says beside its log why it fails, and ends: a task of it that fails alone would be noticed by nobody.
fn end_with_a_panic(log: &Path) {
    let (said, tell) = (log.with_extension("panic"), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        let _the_message_is_on_stderr = std::fs::write(&said, panic.to_string());
        std::process::exit(101);
    }));
}

/// The processes that write.
struct Writers {
    processes: Vec<Child>,
    logs: [PathBuf; 3],
}

impl Writers {
    fn start(field: &Field<'_>, folder: &Path) -> Self {
        let logs: [PathBuf; 3] = std::array::from_fn(|number| folder.join(number.to_string()));
        let start = |(number, log): (usize, &PathBuf)| {
            field.child("writer", &[&number.to_string(), log.to_str().unwrap()])
        };
        Self { processes: logs.iter().enumerate().map(start).collect(), logs }
    }

    fn all_go_on(&mut self) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            let ended = process.try_wait().unwrap();
            assert!(ended.is_none(), "writer {number} has failed: {}", said(&self.logs[number]));
        }
    }

    /// Lets them end; their logs.
    fn end(mut self) -> [String; 3] {
        for writer in &mut self.processes {
            drop(writer.stdin.take());
        }
        for (number, writer) in self.processes.iter_mut().enumerate() {
            let ended = writer.wait().unwrap();
            assert!(ended.success(), "writer {number} has failed: {}", said(&self.logs[number]));
        }
        self.logs.map(|log| std::fs::read_to_string(log).unwrap())
    }
}

fn said(log: &Path) -> String {
    std::fs::read_to_string(log.with_extension("panic")).unwrap_or_default()
}

async fn open(urls: [&str; 2], who: &str) -> PostgresStore {
    // The test holds locks until a mover has come to them.
    let options = PostgresOptions::new().application_name(who).patience(SLOW);
    let options = options.lock_timeout(SLOW).statement_timeout(2 * SLOW);
    PostgresStore::connect_all_with([("a", urls[0]), ("b", urls[1])], options).await.unwrap()
}

async fn to_and_fro(urls: [&str; 2]) {
    let store = open(urls, "mover").await;
    loop {
        for to in ["b", "a"] {
            store.move_buckets(0..BUCKETS, to).await.unwrap();
        }
    }
}

/// Both databases, and what the test does to them.
struct Field<'c> {
    databases: [Database<'c>; 2],
    store: PostgresStore,
    clients: [Client; 2],
}

impl<'c> Field<'c> {
    async fn lay(cluster: &'c Cluster) -> Self {
        let databases = [cluster.database().await, cluster.database().await];
        let urls = databases.each_ref().map(Database::url);
        let store = open(urls.each_ref().map(String::as_str), "test").await;
        let clients = [connect(&urls[0]).await, connect(&urls[1]).await];
        Self { databases, store, clients }
    }

    fn child(&self, role: &str, more: &[&str]) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(role);
        let urls = self.databases.each_ref().map(Database::url);
        if role == "writer" {
            command.arg(more[0]).args(&urls).args(&more[1..]);
        } else {
            command.args(&urls).args(more);
        }
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    /// Which database has a bucket: 0 or 1.
    async fn holder(&self, bucket: i16) -> usize {
        let sql = "SELECT coalesce((SELECT database FROM placement WHERE shard = $1), 'a')";
        let name: String = self.clients[0].query_one(sql, &[&bucket]).await.unwrap().get(0);
        usize::from(name == "b")
    }

    /// Waits until the process that moves waits for the lock of a table in a database.
    async fn until_stopped(&self, database: usize, table: &str, mover: &mut Child, point: Point) {
        let sql = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE NOT l.granted AND l.relation = $1::text::regclass
                AND a.application_name = 'mover' AND a.datname = current_database()";
        let until = Instant::now() + SLOW;
        loop {
            let stopped: i64 = self.clients[database].query_one(sql, &[&table]).await.unwrap().get(0);
            if stopped > 0 {
                return;
            }
            let ended = mover.try_wait().unwrap();
            assert!(ended.is_none(), "the mover has ended before it was stopped: {point:?}, {ended:?}");
            assert!(Instant::now() < until, "the mover does not come to the lock");
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

/// Says how much there was to judge.
async fn nothing_is_lost_while_buckets_move() -> String {
    let cluster = Cluster::begin(Cluster::options());
    let field = Field::lay(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let mut writers = Writers::start(&field, folder.path());
    let kills = kill_at_random(&field, &mut writers).await;
    for point in POINTS {
        kill_at(&field, point).await;
        writers.all_go_on();
    }
    let logs = writers.end();
    all_moves_are_complete(&field).await;
    let judged = judge::judge(&field.store, &field.clients, &logs).await;
    field.store.close().await.unwrap();
    format!("{kills} movers killed at random, {judged}")
}

/// Goes on until there is enough to judge: a slow machine has little of it after the time that is planned.
async fn kill_at_random(field: &Field<'_>, writers: &mut Writers) -> usize {
    let (since, mut kills) = (Instant::now(), 0);
    while since.elapsed() < CHAOS
        || (since.elapsed() < SLOW && !judge::is_enough(&field.clients[0], &writers.logs).await)
    {
        writers.all_go_on();
        let mut mover = field.child("mover", &[]);
        // 0.2 to 1.2 seconds, never the same, and longer where a mover takes longer than that to begin.
        let chance = u64::from(since.elapsed().subsec_micros()) % 1000;
        let pause = (200 + chance) * if since.elapsed() < CHAOS { 1 } else { 4 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        assert!(mover.try_wait().unwrap().is_none(), "the mover has failed");
        mover.kill().unwrap();
        mover.wait().unwrap();
        kills += 1;
    }
    kills
}

/// Where the mover is when it is killed.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// It waits for a writer.
    BeforeThePacking,
    /// It holds the lock.
    Packing,
    /// Nobody has the bucket.
    Packed,
    /// The rows are in the target, and not committed.
    Unpacking,
    /// The parcel is there still.
    Unpacked,
    /// Only the map is wrong.
    Cleared,
}

const POINTS: [Point; 6] = [
    Point::BeforeThePacking,
    Point::Packing,
    Point::Packed,
    Point::Unpacking,
    Point::Unpacked,
    Point::Cleared,
];

async fn kill_at(field: &Field<'_>, point: Point) {
    let bucket = 3_i16;
    all_moves_are_complete(field).await;
    let source = field.holder(bucket).await;
    let (target, to) = (1 - source, ["b", "a"][source]);
    let hold = async |at: usize, table: &'static str, mode: &str| {
        let client = connect(&field.databases[at].url()).await;
        client.batch_execute(&format!("BEGIN; LOCK TABLE {table} IN {mode} MODE")).await.unwrap();
        (client, at, table)
    };
    let (first, stops_at, table) = match point {
        Point::BeforeThePacking => hold(source, "runs", "ROW EXCLUSIVE").await,
        Point::Packing => hold(source, "parcels", "EXCLUSIVE").await,
        // Writers would wait for their tables while the mover begins.
        Point::Packed | Point::Unpacking | Point::Unpacked | Point::Cleared => {
            hold(target, "buckets", "EXCLUSIVE").await
        }
    };
    let mut mover = field.child("mover", &[&bucket.to_string(), to]);
    field.until_stopped(stops_at, table, &mut mover, point).await;
    let then = match point {
        Point::BeforeThePacking | Point::Packing | Point::Packed => None,
        Point::Unpacking => Some((target, "journal")),
        Point::Unpacked => Some((source, "parcels")),
        Point::Cleared => Some((0, "placement")),
    };
    match then {
        Some((at, table)) => {
            let (second, at, table) = hold(at, table, "EXCLUSIVE").await;
            drop(first);
            field.until_stopped(at, table, &mut mover, point).await;
            mover.kill().unwrap();
            mover.wait().unwrap();
            drop(second);
        }
        None => {
            mover.kill().unwrap();
            mover.wait().unwrap();
            drop(first);
        }
    }
    // Some are completed by whoever asks for the move again, and some by the writers.
    if matches!(point, Point::Packed | Point::Unpacked) {
        all_moves_are_complete(field).await;
    }
    field.store.move_buckets(3..4, to).await.unwrap();
    assert_eq!(field.holder(bucket).await, target, "{point:?}");
}

async fn all_moves_are_complete(field: &Field<'_>) {
    let until = Instant::now() + SLOW;
    while field.store.placement().await.unwrap().iter().any(|database| database.leaving > 0) {
        assert!(Instant::now() < until, "a move that was left is not completed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
