//! Recovery: how fast a journal is read and replayed.
//!
//! `cargo bench --bench recover -- [--steps S] [--dir DIR] [--scratch DIR] [--json]`
//!
//! One run of S recorded steps (default 10,000) is cut off before its last step, by dropping its engine. A second process
//! takes it up with an engine on the same file. Measured are the time from opening the store to the durable result, and by
//! how much the memory of that process grew at most; bodies of recorded steps are counted, and there must be none.
//! Then the same process verifies the run: `verify_seconds`, and `verify_peak_mb`, the most that the process took until then,
//! recovery included.
//!
//! The floor is a process without an engine that reads the same rows with SQL, checks their chain and parses them as JSON,
//! once before the engine and once after it; the median counts. The ratio is the engine's events per second over the
//! floor's. Every recorded step waits for the disk: a journal of 1,000,000 steps is recorded sooner with `--scratch` and
//! a folder in memory, such as `/dev/shm`, from which it is then copied to `--dir` (default: the target directory).

#[path = "kit/mod.rs"]
mod kit;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aether::engine::Limits;
use aether::prelude::*;
use kit::child::{figures, number, rate};
use kit::figures::{median, tell};
use kit::memory;
use kit::progress::until;
use serde_json::json;

#[derive(Default)]
struct Gauge {
    calls: AtomicU64,
    open: AtomicBool,
}

#[step(effect = "tool")]
async fn send(cx: &mut StepCx, number: u32) -> Result<String> {
    cx.dep::<Arc<Gauge>>()?.calls.fetch_add(1, Ordering::Relaxed);
    Ok(format!("{number:0>100}"))
}

#[step(effect = "read", retry(max_retries = 0), timeout = "none")]
async fn last(cx: &mut StepCx) -> Result<()> {
    if !cx.dep::<Arc<Gauge>>()?.open.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[workflow]
async fn long(cx: &mut Cx, steps: u32) -> Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length += send(cx, number).await?.len();
    }
    last(cx).await?;
    Ok(length)
}

/// An engine whose runs may have as many events as they will.
async fn engine(path: &Path, gauge: &Arc<Gauge>) -> kit::Result<Engine> {
    let limits = Limits { history: u64::MAX, ..Limits::default() };
    Ok(Engine::builder().sqlite(path).limits(limits).provide(Arc::clone(gauge)).start().await?)
}

/// Records a run that is cut off before its last step.
async fn record(path: &Path, steps: u32) -> kit::Result<()> {
    let gauge = Arc::new(Gauge::default());
    let engine = engine(path, &gauge).await?;
    let run = engine.start::<long>(steps).id("long").await?;
    let calls = async || Ok(gauge.calls.load(Ordering::Relaxed));
    until("steps called", steps.into(), Duration::from_millis(20), calls).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(run);
    // Lets nothing finish: the last step never would.
    Ok(engine.shutdown_within(Duration::ZERO).await?)
}

/// What the process with the engine does.
async fn recover(path: &Path, steps: u32) -> kit::Result<()> {
    let gauge = Arc::new(Gauge { open: true.into(), ..Gauge::default() });
    let (before, begun) = (memory::resident(), Instant::now());
    let engine = engine(path, &gauge).await?;
    let run = engine.handle::<long>("long").await?;
    let length = run.result().await?;
    let seconds = begun.elapsed().as_secs_f64();
    let (peak_mb, grown_mb) = (memory::peak_mb(), memory::peak_mb_beyond(before));
    let calls = gauge.calls.load(Ordering::Relaxed);
    if length != 100 * steps as usize || calls != 0 {
        return Err(format!("{length} bytes, {calls} bodies called: recovery is wrong").into());
    }
    let begun = Instant::now();
    let verified = engine.verify(run.id()).await?;
    let (verify_seconds, verify_peak_mb) = (begun.elapsed().as_secs_f64(), memory::peak_mb());
    let record = engine.store().run(run.id()).await?.ok_or("the run is gone")?;
    engine.shutdown().await?;
    let figures = json!({
        "events": record.next, "seconds": seconds, "verify_seconds": verify_seconds, "matched": verified.matched,
        "recorded": verified.recorded, "body_calls": calls, "peak_mb": peak_mb, "grown_mb": grown_mb,
        "verify_peak_mb": verify_peak_mb,
    });
    println!("{figures}");
    Ok(())
}

fn measure(path: &str, steps: u32, json: bool) -> kit::Result<()> {
    let before = figures(&["--floor", path])?;
    let engine = figures(&["--recover", path, "--steps", &steps.to_string()])?;
    let after = figures(&["--floor", path])?;
    let per_s = rate(&engine, "events")?;
    let floor = median(vec![rate(&before, "events")?, rate(&after, "events")?]);
    let events = number(&engine, "events")?;
    if number(&after, "events")? != events || events < 2.0 * f64::from(steps) {
        return Err(format!("{engine} and {after} are not about the same {steps} steps").into());
    }
    let ratio = per_s / floor;
    let told = json!({
        "engine": "aether-sqlite", "steps": steps, "events": engine["events"], "seconds": engine["seconds"],
        "events_per_s": per_s, "verify_seconds": engine["verify_seconds"], "matched": engine["matched"],
        "body_calls": engine["body_calls"], "peak_mb": engine["peak_mb"], "grown_mb": engine["grown_mb"],
        "verify_peak_mb": engine["verify_peak_mb"],
        "journal_bytes": after["bytes"], "floor_events_per_s": floor, "floor_grown_mb": after["grown_mb"],
        "ratio": ratio,
    });
    let text = format!(
        "{events} events of {steps} steps recovered in {:.3} s ({per_s:.0} events/s), {} bodies called, {} MB more in memory; verified in {:.3} s, {} of {} answers matched; without an engine {floor:.0} events/s, ratio {ratio:.2}",
        number(&engine, "seconds")?,
        engine["body_calls"],
        engine["grown_mb"],
        number(&engine, "verify_seconds")?,
        engine["matched"],
        engine["recorded"],
    );
    tell(json, "recover", told, &text);
    Ok(())
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let mut options = kit::options::Options::read();
    let steps = options.value("--steps", 10_000)?;
    let second = (options.text("--recover")?, options.text("--floor")?);
    let (json, files) = (options.flag("--json"), kit::place::Recorded::new(&mut options)?);
    options.end()?;
    match second {
        (Some(path), _) => recover(Path::new(&path), steps).await,
        (_, Some(path)) => kit::journal::print_reading(&path, "long", true),
        _ => {
            record(&files.draft(), steps).await?;
            measure(&files.settled()?, steps, json)
        }
    }
}
