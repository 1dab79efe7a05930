//! Two worker processes that are killed again and again while their runs call tools, on a file and on Postgres: no call is
//! made twice.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use aether::mcp::Server;
use aether::prelude::*;
use aether_pg_tests::Cluster;
use serde_json::{Value, json};

use crate::http_server::HttpServer;
use crate::kit::{Became, Declared, bank, pay_often};
use crate::slow::{Slow, Task, form, paid};

const STORE: &str = "AETHER_MCP_WORKER_STORE";
const SERVER: &str = "AETHER_MCP_WORKER_SERVER";
const RUNS: usize = 6;
const CALLS: u32 = 30;
/// Kills of a worker.
const KILLS: usize = 8;
/// How long a call takes: long enough that kills meet some of them.
const TAKES_MS: usize = 25;

/// Where the runs are.
#[derive(Clone)]
enum Place {
    File(PathBuf),
    Database(String),
}

impl Place {
    fn read(text: &str) -> Self {
        if text.starts_with("postgres") { Self::Database(text.into()) } else { Self::File(text.into()) }
    }

    fn as_text(&self) -> String {
        match self {
            Self::File(path) => path.to_str().unwrap().to_owned(),
            Self::Database(url) => url.clone(),
        }
    }

    async fn open(&self, server: &str) -> Engine {
        let builder =
            Engine::builder().provide(bank(Server::http(server))).poll_interval(Duration::from_millis(50));
        let builder = builder.lease(Duration::from_secs(2));
        match self {
            Self::File(path) => builder.sqlite(path).start().await.unwrap(),
            Self::Database(url) => builder.postgres(url).start().await.unwrap(),
        }
    }
}

fn declared(rounds: &Value) -> Declared {
    if rounds.is_null() { Declared::Not } else { Declared::Answering }
}

async fn start_all(engine: &Engine, declared: Declared) {
    for number in 0..RUNS {
        let _run = engine.start::<pay_often>((declared, CALLS)).id(format!("r{number}")).await.unwrap();
    }
}

/// Runs where the tests below started this program; without a store there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_process_pays_until_it_is_killed() {
    let (Ok(store), Ok(server)) = (std::env::var(STORE), std::env::var(SERVER)) else { return };
    let (url, how) = server.split_once(' ').unwrap();
    let engine = Place::read(&store).open(url).await;
    start_all(&engine, if how == "asks" { Declared::Answering } else { Declared::Not }).await;
    std::future::pending::<()>().await;
}

struct Worker(Child);

impl Worker {
    fn start(place: &Place, server: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["killed::a_worker_process_pays_until_it_is_killed", "--exact", "--nocapture"]);
        command.env(STORE, place.as_text()).env(SERVER, server).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Kills workers while they call a tool that asks `rounds` first or becomes a task, and judges what came of it.
async fn storm(place: Place, rounds: Value, task: Option<Task>) {
    let asks = !rounds.is_null();
    let rounds = if asks { vec![rounds] } else { Vec::new() };
    let server = HttpServer::slow(Slow { rounds, task, ..Slow::default() }).await;
    server.state.takes_ms.store(TAKES_MS, Ordering::SeqCst);
    let address = format!("{} {}", server.url, if asks { "asks" } else { "plain" });
    let mut workers = [Worker::start(&place, &address), Worker::start(&place, &address)];
    for kill in 0..KILLS {
        let before = server.asked("tools/call");
        let mut patience = 250;
        while server.asked("tools/call") < before + 10 && patience > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            patience -= 1;
        }
        // At another moment of a call each time.
        tokio::time::sleep(Duration::from_millis((kill * 7 % TAKES_MS) as u64)).await;
        workers[kill % 2] = Worker::start(&place, &address);
    }
    drop(workers);

    let engine = place.open(&server.url).await;
    let declared = declared(if asks { &Value::Bool(true) } else { &Value::Null });
    let (mut answered, mut in_doubt) = (0, 0);
    for number in 0..RUNS {
        let run = engine.start::<pay_often>((declared, CALLS)).id(format!("r{number}")).await.unwrap();
        for became in run.result().await.unwrap() {
            match became {
                Became::Answered(text) => {
                    assert_eq!(text, "paid");
                    answered += 1;
                }
                Became::InDoubt(_) => in_doubt += 1,
                Became::Failed(why) => panic!("{why}"),
            }
        }
        let verified = engine.verify(run.id()).await.unwrap();
        assert_eq!(verified.recorded, verified.matched);
    }
    let mut by_key = BTreeMap::<String, usize>::new();
    for call in server.state.executed.lock().unwrap().iter() {
        *by_key.entry(call["_meta"][aether::mcp::KEY_FIELD].to_string()).or_default() += 1;
    }
    let twice: Vec<_> = by_key.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "executed twice: {twice:?}");
    let executed = by_key.len();
    println!("{answered} answered, {in_doubt} in doubt, {executed} executed, {KILLS} kills");
    assert_eq!(answered + in_doubt, RUNS * CALLS as usize);
    assert!(executed >= answered && executed <= answered + in_doubt, "{executed} {answered} {in_doubt}");
    assert!(answered > in_doubt, "{answered} {in_doubt}");
}

fn file() -> (tempfile::TempDir, Place) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("runs.db"));
    (folder, place)
}

fn task() -> Task {
    let result = paid();
    let end = json!({ "status": "completed", "result": { "content": result["content"] } });
    Task { working: 0, poll_ms: 100, asks: None, end, obeys: true }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_calls_of_killed_workers_on_a_file() {
    let (_folder, place) = file();
    storm(place, Value::Null, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_killed_workers_on_a_file() {
    let (_folder, place) = file();
    storm(place, json!({ "amount": form() }), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_killed_workers_on_a_file() {
    let (_folder, place) = file();
    storm(place, Value::Null, Some(task())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_calls_of_killed_workers_on_postgres() {
    let database = Cluster::shared().database().await;
    storm(Place::Database(database.url()), Value::Null, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_killed_workers_on_postgres() {
    let database = Cluster::shared().database().await;
    storm(Place::Database(database.url()), Value::Null, Some(task())).await;
}
