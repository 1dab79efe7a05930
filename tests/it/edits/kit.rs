//! What every build of the edited agent has: bodies that write down that they were called, and the commands of the
//! program.
//!
//! `record FILE` leaves one run for each stop position of each scenario, `judge FILE` prints what a check says of the open
//! runs and what a recovery does with them, `recover FILE` only the latter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use aether::definition::Workflow;
use aether::people::{Resolution, WaitFilter, Waiting};
use aether::prelude::*;
use aether::store::{RunFilter, Store};
use aether_sqlite::SqliteStore;
use aether_testing::crash::{CrashPoint, CrashStore};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a customer wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Who.
    pub customer: String,
    /// What.
    pub items: Vec<String>,
    /// How long a person may think about it, in milliseconds.
    pub patience: u64,
}

/// Who the customer is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Customer {
    /// Name.
    pub name: String,
    /// Whether the card is fine.
    pub solvent: bool,
}

static CALLS: OnceLock<Mutex<File>> = OnceLock::new();

/// A body that changes the world was called: under this key, with these arguments.
pub fn called(cx: &StepCx, step: &str, args: impl Serialize) {
    let line = json!({"key": cx.idempotency_key().as_str(), "step": step, "args": args});
    let mut calls = CALLS.get().unwrap().lock().unwrap();
    writeln!(calls, "{line}").unwrap();
}

const HOUR: Duration = Duration::from_secs(3_600);
/// The stops of a scenario are fewer.
const STOPS: u64 = 120;

fn scenarios() -> [(&'static str, Order); 3] {
    let order = |customer: &str, items: &[&str], patience| Order {
        customer: customer.into(),
        items: items.iter().map(ToString::to_string).collect(),
        patience,
    };
    [
        ("fine", order("ann", &["lamp", "desk", "rug"], 3_600_000)),
        ("refused", order("eve", &["lamp", "desk"], 3_600_000)),
        ("late", order("bob", &["lamp"], 20)),
    ]
}

/// The program.
pub fn program<W: Workflow<Input = Order, Output = String>>() {
    let mut args = std::env::args().skip(1);
    let (command, file) = (args.next().unwrap(), args.next().unwrap());
    let calls = OpenOptions::new().create(true).append(true).open(format!("{file}.calls")).unwrap();
    CALLS.set(Mutex::new(calls)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(&file).unwrap());
        let said = match command.as_str() {
            "record" => record::<W>(&store).await,
            "judge" => {
                let checked = check(&store).await;
                json!({"checked": checked, "ends": recover(&store).await})
            }
            _ => json!({"ends": recover(&store).await}),
        };
        store.close().await.unwrap();
        said
    });
    println!("{said}");
    // Engines whose process is said to have died still wait for their stores.
    std::process::exit(0);
}

/// One run for each stop of each scenario; returns how many.
async fn record<W: Workflow<Input = Order, Output = String>>(store: &Arc<SqliteStore>) -> Value {
    let mut stops = BTreeMap::new();
    for (name, order) in scenarios() {
        for stop in 1..=STOPS {
            let inner = Arc::clone(store) as Arc<dyn Store>;
            let crashing = Arc::new(CrashStore::new(inner, Some(CrashPoint::After(stop))));
            // It holds its run until the end, and has no room for what the others left.
            let engine = Engine::builder().store(Arc::clone(&crashing) as Arc<dyn Store>);
            let engine = engine.max_active(1).lease(HOUR).eviction_grace(HOUR).start().await.unwrap();
            let id = format!("{name}-{stop:03}");
            let run = engine.start::<W>(order.clone()).id(id);
            let run = tokio::select! {
                run = run => run.unwrap(),
                () = crashing.crashed() => { std::mem::forget(engine); continue }
            };
            let answering = async {
                loop {
                    answer(&engine, Some(run.id().as_str())).await;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            let ended = tokio::select! {
                end = run.result() => { drop(end); true }
                () = crashing.crashed() => false,
                () = answering => false,
            };
            std::mem::forget((engine, run));
            if ended && !crashing.is_frozen() {
                stops.insert(name, stop);
                break;
            }
        }
    }
    json!(stops)
}

/// What a check of this build says of every open run.
async fn check(store: &Arc<SqliteStore>) -> Value {
    let engine = Engine::builder().store(Arc::clone(store) as Arc<dyn Store>).client().start().await.unwrap();
    let report = engine.check(RunFilter::new()).await.unwrap();
    let runs = report.runs.iter().map(|run| {
        let said = json!({"verdict": run.verdict.to_string(), "why": run.why.as_deref()});
        (run.run.as_str().to_owned(), said)
    });
    Value::Object(runs.collect())
}

/// Answers people's waits, until nothing moves; then what became of every run.
async fn recover(store: &Arc<SqliteStore>) -> Value {
    let engine = Engine::builder().store(Arc::clone(store) as Arc<dyn Store>);
    let engine = engine.poll_interval(Duration::from_millis(20)).start().await.unwrap();
    let begun = Instant::now();
    let (mut places, mut unmoved) = (Vec::new(), 0);
    while begun.elapsed() < Duration::from_secs(300) {
        answer(&engine, None).await;
        let open = engine.runs(RunFilter::new().open()).await.unwrap();
        // Parked runs are tried again at once, where there is code that they may fit.
        let patience = if open.iter().all(|run| run.parked) { 60 } else { 240 };
        let now: Vec<_> = open.into_iter().map(|run| (run.id, run.next, run.parked)).collect();
        unmoved = if now == places { unmoved + 1 } else { 0 };
        places = now;
        if places.is_empty() || unmoved > patience {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut ends = serde_json::Map::new();
    for record in engine.runs(RunFilter::new()).await.unwrap() {
        let end = if record.parked {
            json!({"end": "parked"})
        } else if record.status.is_terminal() {
            let last = store.last_frame(&record.id).await.unwrap().unwrap();
            let result = serde_json::to_value(last.events().unwrap().last()).unwrap();
            json!({"end": record.status.as_str(), "result": result})
        } else {
            json!({"end": "open", "result": record.status.as_str()})
        };
        ends.insert(record.id.as_str().to_owned(), end);
    }
    engine.shutdown().await.unwrap();
    Value::Object(ends)
}

/// Says yes to everything that is asked, of one run or of all; nobody decides about late orders.
async fn answer(engine: &Engine, only: Option<&str>) {
    for wait in engine.all_pending(WaitFilter::for_reply()).await.unwrap().waits {
        let id = wait.run.as_str();
        if only.is_some_and(|only| only != id) || wait.parked {
            continue;
        }
        // What was decided meanwhile is refused.
        let _refused = match wait.waiting {
            Waiting::Approval if id.starts_with("late") => continue,
            Waiting::Approval => engine.approve(&wait.run, &wait, "ann").await.is_err(),
            Waiting::Question => engine.answer(&wait.run, &wait, &true, "ann").await.is_err(),
            // The list names the wait as it was recorded, and the code may wait for a new name by now: while programs are
            // exchanged, senders use either.
            Waiting::Signal => {
                for name in [&*wait.name, "delivered", "arrived"] {
                    let _sent_before = engine.signal(&wait.run, name, &format!("{name}-1"), &"here").await;
                }
                continue;
            }
            Waiting::Resolution => {
                let Some(invocation) = &wait.invocation else { continue };
                engine.resolve(&wait.run, invocation, Resolution::DidNotHappen, "ann").await.is_err()
            }
            _ => continue,
        };
    }
}
