//! A worker process of the storm: an engine that takes runs until it is killed, or asked to end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aether::engine::EngineBuilder;
use aether::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::log::{Log, monotonic};
use crate::{LEASE, open};

const FOLDER: &str = "AETHER_QUEUE_STORM_FOLDER";
const ADDRESS: &str = "AETHER_QUEUE_STORM_ADDRESS";

/// What a run does.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct Job {
    /// Queue and key, as the log names them.
    pub(crate) place: String,
    /// How long the bodies of its turns take, in milliseconds. Between two turns it waits.
    pub(crate) turns: Vec<u64>,
    /// How long it waits between turns.
    pub(crate) wait: u64,
}

/// A body that has not ended.
struct InBody<'a> {
    log: &'a Log,
    run: String,
    place: &'a str,
    what: &'static str,
}

impl Drop for InBody<'_> {
    fn drop(&mut self) {
        self.log.note(self.what, &self.run, self.place);
    }
}

/// Works for a while. Some bodies block their threads.
#[step(effect = "tool", on_unknown = "retry", idempotent)]
async fn storm_work(cx: &mut StepCx, place: String, ms: u64) -> Result<()> {
    let log = cx.dep::<Log>()?;
    log.note("begin", cx.run_id().as_str(), &place);
    let mut body = InBody { log: &log, run: cx.run_id().to_string(), place: &place, what: "drop" };
    let time = Duration::from_millis(ms);
    if ms.is_multiple_of(8) {
        std::thread::sleep(time)
    } else {
        tokio::time::sleep(time).await
    }
    body.what = "end";
    Ok(())
}

/// Several turns with waits between them.
#[workflow]
pub(crate) async fn storm_shift(cx: &mut Cx, job: Job) -> Result<usize> {
    for ms in &job.turns {
        storm_work(cx, job.place.clone(), *ms).await?;
        cx.sleep(Duration::from_millis(job.wait)).await;
    }
    Ok(job.turns.len())
}

/// Works until a file is there.
#[step(effect = "tool", on_unknown = "retry", idempotent)]
async fn storm_stay(cx: &mut StepCx, place: String, until: PathBuf) -> Result<()> {
    let log = cx.dep::<Log>()?;
    log.note("stays", cx.run_id().as_str(), &place);
    while !until.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Keeps its slot until a file is there.
#[workflow]
pub(crate) async fn storm_guard(cx: &mut Cx, place: String, until: PathBuf) -> Result<()> {
    Ok(storm_stay(cx, place, until).await?)
}

/// The engine of a worker, or of the driver.
pub(crate) async fn builder(folder: &Path, address: &str) -> EngineBuilder {
    Engine::builder()
        .store(open(address).await)
        .provide(Log::in_folder(folder))
        .lease(LEASE)
        .max_active(24)
        .poll_interval(Duration::from_millis(30))
        .eviction_grace(Duration::from_millis(50))
        .cancel_grace(Duration::from_millis(200))
}

/// Starts a worker that writes what it complains of into a file of the folder.
pub(crate) fn spawn(folder: &Path, address: &str) -> Child {
    let errors = folder.join("errors");
    let errors = std::fs::OpenOptions::new().create(true).append(true).open(errors).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["worker::a_worker_process_of_the_storm", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(ADDRESS, address)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap()
}

/// Runs where the driver started this program; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_worker_process_of_the_storm() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let address = std::env::var(ADDRESS).unwrap();
    let log = Log::in_folder(&folder);
    std::thread::spawn(move || watch_for_gaps(&log));
    std::thread::spawn(|| {
        // The driver holds the other end.
        let _until_it_is_gone = std::io::stdin().lines().next();
        std::process::exit(3);
    });
    let mut ends = signal(SignalKind::terminate()).unwrap();
    let engine = builder(&folder, &address).await.start().await.unwrap();
    ends.recv().await;
    let _runs_are_taken_over_otherwise = engine.shutdown_within(Duration::from_millis(100)).await;
    std::process::exit(0);
}

/// Notes when this process did not run for a while, whoever kept it from that.
fn watch_for_gaps(log: &Log) -> ! {
    let mut last = monotonic();
    loop {
        std::thread::sleep(Duration::from_millis(10));
        let now = monotonic();
        if Duration::from_micros(now - last) > LEASE / 4 {
            log.note("gap", &last.to_string(), "-");
        }
        last = now;
    }
}
