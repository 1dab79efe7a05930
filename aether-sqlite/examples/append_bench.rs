//! How fast the store takes appends, without an engine: R runs of S steps, C of them at a time.
//!
//! Usage: `append_bench CLASS RUNS STEPS INFLIGHT [FILE]`, where `CLASS` is `tool` (a durable intent before and an
//! outcome after each step) or `read` (one outcome per step). Prints one line.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use aether_core::contract::Status;
use aether_core::id::{CommandId, IdempotencyKey, InvocationId, RunId};
use aether_core::journal::Frame;
use aether_core::payload::{Digest, Payload};
use aether_core::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate};
use aether_core::store::{Ack, Append, DurableWatermark, NewRun, StatusChange, Store};
use aether_sqlite::SqliteStore;
use jiff::Timestamp;

type Failure = Box<dyn Error + Send + Sync>;

fn frame(command: &CommandId, kind: &str, size: usize) -> Frame {
    let fill = "x".repeat(size);
    let text = format!(
        "[{{\"{kind}\":{{\"command\":\"{command}\",\"value\":\"{fill}\"}}}},{{\"node_finished\":{{\"command\":\"{command}\"}}}}]"
    );
    Frame { count: 2, text }
}

struct Run {
    store: Arc<SqliteStore>,
    id: RunId,
    next: u64,
    tail: Arc<DurableWatermark>,
    digest: Digest,
}

impl Run {
    fn append(&mut self, frame: Frame, ack: Option<Ack>) -> Append {
        let (expected, next) = (self.next, self.next + u64::from(frame.count));
        self.next = next;
        Append {
            run: self.id.clone(),
            epoch: 1,
            expected,
            at: Timestamp::now(),
            frame,
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
            ack: ack.unwrap_or_else(|| Ack::silent(self.id.clone(), next, self.tail.clone())),
        }
    }

    async fn durably(&mut self, change: impl FnOnce(&mut Append), frame: Frame) -> Result<(), Failure> {
        let next = self.next + u64::from(frame.count);
        let (ack, reply) = Ack::awaited(self.id.clone(), next, self.tail.clone());
        let mut append = self.append(frame, Some(ack));
        change(&mut append);
        self.store.append(append);
        reply.await??;
        Ok(())
    }

    async fn tool(&mut self, command: &CommandId) -> Result<(), Failure> {
        let key = IdempotencyKey::new(&self.id, command, 0);
        let otherwise = frame(command, "tool_invocation_refused", 20);
        let entry = LedgerEntry {
            key: key.clone(),
            run: self.id.clone(),
            command: command.clone(),
            invocation: InvocationId::new(command, 0),
            tool: "send_email".into(),
            digest: self.digest.clone(),
            business_key: None,
            status: LedgerStatus::Started,
            result: None,
            error: None,
            committed: false,
            epoch: 1,
            started_at: Timestamp::now(),
            finished_at: None,
        };
        let intent = frame(command, "tool_invocation_started", 360);
        self.durably(|append| append.acquire = Some(Acquire { entry, otherwise }), intent).await?;
        let mut outcome = self.append(frame(command, "command_committed", 510), None);
        let result = Some(Payload::encode("a result of a usual size, some forty bytes")?);
        let status = LedgerStatus::Succeeded;
        outcome.ledger.push(LedgerUpdate { key, status, result, error: None, committed: true });
        self.store.append(outcome);
        Ok(())
    }

    async fn steps(&mut self, class: &str, steps: usize) -> Result<(), Failure> {
        for step in 0..steps {
            let command = CommandId::new(&step.to_string(), "send_email");
            if class == "tool" {
                self.tool(&command).await?;
            } else {
                let outcome = self.append(frame(&command, "command_committed", 510), None);
                self.store.append(outcome);
                tokio::task::yield_now().await;
            }
        }
        let status =
            StatusChange { status: Status::Completed, wake_at: None, release: true, seen: 0, notify: None };
        self.durably(
            |append| append.status = Some(status),
            frame(&CommandId::new("9", "end"), "run_completed", 40),
        )
        .await
    }
}

async fn run(store: Arc<SqliteStore>, id: String, class: String, steps: usize) -> Result<(), Failure> {
    let digest = Digest::of(&Payload::null())?;
    let id = RunId::new(id)?;
    let at = Timestamp::now();
    let new = NewRun {
        id: id.clone(),
        workflow: "bench".into(),
        version: 1,
        code: Default::default(),
        digest: digest.clone(),
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: frame(&CommandId::new("0", "create"), "run_created", 200),
        at,
        owner: Some("bench".to_owned().into()),
        parent_epoch: None,
        terms: Default::default(),
    };
    store.create(new).await?;
    Run { store, id, next: 2, tail: Arc::default(), digest }.steps(&class, steps).await
}

/// Seconds of processor time of the thread of this name, from `/proc`.
fn processor(thread: &str) -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    for task in tasks.flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        if thread.starts_with(name.trim()) {
            let times = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            return times.split(' ').next()?.parse::<f64>().ok().map(|nanos| nanos / 1e9);
        }
    }
    None
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [class, runs, steps, inflight, rest @ ..] = &args[..] else {
        return Err("usage: append_bench tool|read RUNS STEPS INFLIGHT [FILE]".into());
    };
    let (runs, steps, inflight) =
        (runs.parse::<usize>()?, steps.parse::<usize>()?, inflight.parse::<usize>()?);
    let folder = tempfile::tempdir()?;
    let path = rest.first().map_or_else(|| folder.path().join("bench.db"), Into::into);
    let store = Arc::new(SqliteStore::open(&path)?);
    let started = Instant::now();
    let lanes: Vec<_> = (0..inflight)
        .map(|lane| {
            let (store, class) = (store.clone(), class.clone());
            tokio::spawn(async move {
                for number in (lane..runs).step_by(inflight) {
                    run(store.clone(), format!("bench-{number:08}"), class.clone(), steps).await?;
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for lane in lanes {
        lane.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let total = (runs * steps) as f64;
    let writer = processor("aether-sqlite-writer").map_or(f64::NAN, |busy| busy * 1e6 / total);
    println!(
        "{class} runs={runs} steps={steps} inflight={inflight}: {:.0} steps/s, writer {writer:.1} us/step",
        total / seconds
    );
    Ok(())
}
