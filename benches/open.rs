//! Starting on many unfinished runs: how soon an engine is there, and how soon it has taken them up.
//!
//! `cargo bench --bench open -- [--runs N] [--dir DIR] [--scratch DIR] [--json]`
//!
//! N runs (default 100,000) are cut off in their second step, by dropping their engine. A second process starts an engine
//! with the default settings on the same file. Told are the times from opening the store until `start` returns, until the
//! second step of the first and of the last run is called, and until the last run has ended, and the memory by which that
//! process grew. All runs must end with their results, and no first step may be called.
//!
//! The floor is a process that reads the rows of all unfinished runs and their journals with SQL, twice; the median
//! counts. The ratio is the time until the last run is taken up over the floor's.

#[path = "kit/mod.rs"]
mod kit;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aether::prelude::*;
use aether::store::RunFilter;
use aether::view::Status;
use kit::child::{figures, number};
use kit::figures::{median, tell};
use kit::memory;
use kit::progress::until;
use serde_json::json;

/// How many runs are started at the same time.
const STARTS: u32 = 500;

/// How many results are read in the end.
const READ: u32 = 1_000;

/// What is seen of the steps. Times are microseconds since `begun`.
struct Gauge {
    begun: Instant,
    /// Whether the second step returns.
    returns: bool,
    prepared: AtomicU64,
    taken_up: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

impl Gauge {
    fn new(returns: bool) -> Arc<Self> {
        let [prepared, taken_up, last] = [const { AtomicU64::new(0) }; 3];
        Arc::new(Self { begun: Instant::now(), returns, prepared, taken_up, first: u64::MAX.into(), last })
    }

    fn take_up(&self) {
        let now = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.first.fetch_min(now, Relaxed);
        self.last.fetch_max(now, Relaxed);
        self.taken_up.fetch_add(1, Relaxed);
    }
}

/// Prepare a number.
#[step(effect = "read")]
async fn prepare(cx: &mut StepCx, number: u32) -> Result<String> {
    cx.dep::<Arc<Gauge>>()?.prepared.fetch_add(1, Relaxed);
    Ok(format!("{number:0>100}"))
}

/// Return once the engine lets it.
#[step(effect = "read", retry(max_retries = 0), timeout = "none")]
async fn hold(cx: &mut StepCx) -> Result<()> {
    let gauge = cx.dep::<Arc<Gauge>>()?;
    gauge.take_up();
    if !gauge.returns {
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[workflow]
async fn unfinished(cx: &mut Cx, number: u32) -> Result<usize> {
    let prepared = prepare(cx, number).await?;
    hold(cx).await?;
    Ok(prepared.len() + number as usize)
}

fn id(run: u32) -> String {
    format!("run-{run}")
}

/// Starts so many runs, and leaves all of them in their second step.
async fn record(path: &Path, runs: u32) -> kit::Result<()> {
    let gauge = Gauge::new(false);
    let engine = Engine::builder().sqlite(path).provide(Arc::clone(&gauge)).start().await?;
    let lanes = (0..STARTS.min(runs)).map(|lane| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for run in (lane..runs).step_by(STARTS as usize) {
                engine.start::<unfinished>(run).id(id(run)).await?;
            }
            kit::Result::Ok(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await??;
    }
    let taken_up = async || Ok(gauge.taken_up.load(Relaxed));
    until("runs in their second step", runs.into(), Duration::from_millis(20), taken_up).await?;
    // Lets nothing finish: the second steps never would.
    Ok(engine.shutdown_within(Duration::ZERO).await?)
}

/// Waits until every run has ended, and reads some of their results.
async fn ended(engine: &Engine, runs: u32) -> kit::Result<()> {
    let completed = RunFilter::new().status(Status::Completed);
    let count = async || Ok(engine.count(completed.clone()).await?);
    until("runs completed", runs.into(), Duration::from_millis(20), count).await?;
    for run in (0..runs).step_by((runs / READ).max(1) as usize) {
        let result = engine.handle::<unfinished>(id(run)).await?.result().await?;
        if result != 100 + run as usize {
            return Err(format!("run {run} returned {result}").into());
        }
    }
    Ok(())
}

/// What the process with the engine does.
async fn open(path: &Path, runs: u32) -> kit::Result<()> {
    let before = memory::resident();
    let gauge = Gauge::new(true);
    let engine = Engine::builder().sqlite(path).provide(Arc::clone(&gauge)).start().await?;
    let started = gauge.begun.elapsed();
    let taken_up = async || Ok(gauge.taken_up.load(Relaxed));
    until("runs taken up", runs.into(), Duration::from_millis(5), taken_up).await?;
    let grown_mb = memory::peak_mb_beyond(before);
    ended(&engine, runs).await?;
    let all = gauge.begun.elapsed();
    let (taken_up, prepared) = (gauge.taken_up.load(Relaxed), gauge.prepared.load(Relaxed));
    if (taken_up, prepared) != (u64::from(runs), 0) {
        return Err(
            format!("{taken_up} second and {prepared} first steps were called for {runs} runs").into()
        );
    }
    engine.shutdown().await?;
    let micros = |time: &AtomicU64| time.load(Relaxed) as f64 / 1e6;
    let figures = json!({
        "started_s": started.as_secs_f64(), "first_taken_up_s": micros(&gauge.first),
        "last_taken_up_s": micros(&gauge.last), "ended_s": all.as_secs_f64(), "grown_mb": grown_mb,
    });
    println!("{figures}");
    Ok(())
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let mut options = kit::options::Options::read();
    let runs = options.value("--runs", 100_000)?;
    let second = (options.text("--open")?, options.text("--floor")?);
    let (json, files) = (options.flag("--json"), kit::place::Recorded::new(&mut options)?);
    options.end()?;
    match second {
        (Some(path), _) => return open(Path::new(&path), runs).await,
        (_, Some(path)) => return kit::journal::print_unfinished(&path),
        _ => record(&files.draft(), runs).await?,
    }
    let path = files.settled()?;
    let floors = [figures(&["--floor", &path])?, figures(&["--floor", &path])?];
    if floors.iter().any(|floor| floor["runs"] != runs) {
        return Err(format!("{floors:?} are not {runs} unfinished runs").into());
    }
    let mut told = figures(&["--open", &path, "--runs", &runs.to_string()])?;
    let floor = median(vec![number(&floors[0], "seconds")?, number(&floors[1], "seconds")?]);
    let last = number(&told, "last_taken_up_s")?;
    let (ratio, rate) = (last / floor, f64::from(runs) / last);
    let text = format!(
        "{runs} unfinished runs: started after {:.3} s, the first taken up after {:.3} s, the last after {last:.2} s ({rate:.0} runs/s), ended after {:.2} s; read after {floor:.2} s, ratio {ratio:.2}",
        number(&told, "started_s")?,
        number(&told, "first_taken_up_s")?,
        number(&told, "ended_s")?,
    );
    told["runs"] = runs.into();
    told["taken_up_per_s"] = rate.into();
    told["floor_read_s"] = floor.into();
    told["ratio"] = ratio.into();
    tell(json, "open", told, &text);
    Ok(())
}
