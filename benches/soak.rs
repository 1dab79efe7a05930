//! Soak: whether memory stays flat while very many runs are in flight for long.
//!
//! `cargo bench --bench soak -- [--inflight C] [--seconds S] [--steps N] [--body-ms M] [--dir DIR] [--json]`
//!
//! C runs (default 10,000) are in flight for S seconds (default 600): where one ends, another is started. Each has N tool
//! steps (default 10) whose bodies take M ms (default 2,000), as those of agents do. The store is SQLite, a new file in
//! `--dir` (default: the target directory), which is deleted in the end.
//!
//! Told is the memory of the process, looked at sixty times: the floor is the median of the second fifth of them, when caches
//! are full, and the ratio that of the last fifth over it. Beside it the largest; how long starts waited for the store,
//! which is how it holds back those who ask for more than it writes; and how many appends shared a commit.

#[path = "kit/mod.rs"]
mod kit;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aether::prelude::*;
use kit::figures::{median, percentile_ms, tell};
use kit::memory;
use serde_json::json;

/// How often memory is looked at.
const LOOKS: u32 = 60;

#[step(effect = "tool")]
async fn work(_cx: &mut StepCx, number: u32, takes_ms: u64) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(takes_ms)).await;
    Ok(format!("{number:0>100}"))
}

#[workflow]
async fn shift(cx: &mut Cx, size: (u32, u64)) -> Result<usize> {
    let (steps, takes_ms) = size;
    let mut length = 0;
    for number in 0..steps {
        length += work(cx, number, takes_ms).await?.len();
    }
    Ok(length)
}

struct Options {
    inflight: u32,
    seconds: u32,
    steps: u32,
    body_ms: u64,
    json: bool,
    dir: PathBuf,
}

impl Options {
    fn parse() -> kit::Result<Self> {
        let mut given = kit::options::Options::read();
        let options = Self {
            inflight: given.value("--inflight", 10_000)?,
            seconds: given.value("--seconds", 600)?,
            steps: given.value("--steps", 10)?,
            body_ms: given.value("--body-ms", 2_000)?,
            json: given.flag("--json"),
            dir: kit::place::folder(&mut given)?,
        };
        given.end()?;
        Ok(options)
    }
}

/// What one lane saw: how long each of its starts waited.
async fn lane(engine: Engine, size: (u32, u64), is_over: Arc<AtomicBool>) -> Result<Vec<Duration>, String> {
    let mut starts = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let run = engine.start::<shift>(size).id(uuid::Uuid::now_v7().to_string()).await;
        starts.push(begun.elapsed());
        let length = run.map_err(|e| e.to_string())?.result().await.map_err(|e| e.to_string())?;
        if length != 100 * size.0 as usize {
            return Err(format!("a run of {} steps returned {length} bytes", size.0));
        }
    }
    Ok(starts)
}

async fn measure(options: &Options) -> kit::Result<()> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let path = dir.path().join("soak.db");
    let engine = Engine::builder().sqlite(&path).start().await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let size = (options.steps, options.body_ms);
    let lanes: Vec<_> =
        (0..options.inflight).map(|_| tokio::spawn(lane(engine.clone(), size, is_over.clone()))).collect();
    let (begun, mut looks) = (Instant::now(), Vec::new());
    for look in 1..=LOOKS {
        let until = begun + Duration::from_secs(options.seconds.into()) * look / LOOKS;
        tokio::time::sleep_until(until.into()).await;
        looks
            .push(memory::mb(memory::resident().ok_or("this system does not tell the memory of a process")?));
    }
    is_over.store(true, Ordering::Relaxed);
    let mut starts = Vec::new();
    for lane in lanes {
        starts.extend(lane.await??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let batches = engine.store().batches();
    engine.shutdown().await?;
    starts.sort_unstable();
    let runs = starts.len();
    let steps_per_s = runs as f64 * f64::from(options.steps) / seconds;
    let fifth = looks.len() / 5;
    let (floor, last) = (median(looks[fifth..2 * fifth].to_vec()), median(looks[4 * fifth..].to_vec()));
    let per_commit = batches.map(|batches| batches.appends as f64 / batches.batches.max(1) as f64);
    let (p50, p99) = (percentile_ms(&starts, 50), percentile_ms(&starts, 99));
    let figures = json!({
        "inflight": options.inflight, "steps": options.steps, "body_ms": options.body_ms, "seconds": seconds,
        "runs_ended": runs, "steps_per_s": steps_per_s, "floor_mb": floor, "last_mb": last, "ratio": last / floor,
        "peak_mb": memory::peak_mb(), "start_p50_ms": p50, "start_p99_ms": p99, "appends_per_commit": per_commit,
        "file_mb": memory::mb(kit::place::bytes(&path)?),
    });
    let text = format!(
        "{} in flight for {seconds:.0} s: {runs} runs, {steps_per_s:.0} steps/s; {floor:.1} MB, {last:.1} MB in the end, \
         ratio {:.3}, at most {:.1} MB; a start p50 {p50:.2} ms, p99 {p99:.2} ms; {:.1} appends a commit",
        options.inflight,
        last / floor,
        memory::peak_mb().unwrap_or(f64::NAN),
        per_commit.unwrap_or(f64::NAN)
    );
    tell(options.json, "soak", figures, &text);
    Ok(())
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    measure(&Options::parse()?).await
}
