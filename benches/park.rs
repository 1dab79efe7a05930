//! Waiting runs: what each costs in memory, how soon an engine on many of them starts, and how soon one of them wakes.
//!
//! `cargo bench --bench park -- [--runs N] [--signals S] [--dir DIR] [--scratch DIR] [--json]`
//!
//! N runs (default 10,000; up to 1,000,000) are started that each wait for a signal, and the engine is closed when all are
//! evicted. A second process opens the file: told are the times until the store is open and until the engine is started,
//! and the memory of the process before the one and two seconds after the other, divided by N as well. Then S signals
//! (default 1,000, at most a third of N) go to runs chosen at random, each sent when the run before has ended, and S more,
//! a hundred a second. A wake is the time from sending a signal to the durable result of its run.
//!
//! The floor of a wake is the time of two appends of a bare writer, each waited for, in the same folder and of the bytes
//! of a run's frames, S of them before and S after. The ratios are the wake's p50 and p99 over the floor's.

#[path = "kit/mod.rs"]
mod kit;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::RunFilter;
use aether::view::Status;
use kit::child::{figures, number};
use kit::figures::{percentile_ms, tell};
use kit::memory;
use kit::progress::until;
use kit::writer::{Row, Writer};
use serde_json::{Value, json};

/// How many runs are started at the same time.
const STARTS: u32 = 500;

/// How long an engine is left alone before its memory is read.
const SETTLING: Duration = Duration::from_secs(2);

/// How often a signal is sent in the second part.
const EVERY: Duration = Duration::from_millis(10);

/// Waits for a number, and adds it to its own.
#[workflow]
async fn wait(cx: &mut Cx, number: u64) -> Result<u64> {
    Ok(number + cx.signal::<u64>("wake").await?)
}

fn id(run: u32) -> String {
    format!("run-{run}")
}

/// Starts so many runs, and returns when all of them wait and none is in memory.
async fn record(path: &Path, runs: u32) -> kit::Result<Duration> {
    let grace = Duration::from_millis(5);
    let (begun, engine) =
        (Instant::now(), Engine::builder().sqlite(path).eviction_grace(grace).start().await?);
    let lanes = (0..STARTS.min(runs)).map(|lane| {
        let engine = engine.clone();
        tokio::spawn(async move {
            for run in (lane..runs).step_by(STARTS as usize) {
                engine.start::<wait>(run.into()).id(id(run)).await?;
            }
            kit::Result::Ok(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await??;
    }
    let evicted = async || Ok(u64::from(runs).saturating_sub(engine.health().await.active as u64));
    until("runs evicted", runs.into(), Duration::from_millis(20), evicted).await?;
    let took = begun.elapsed();
    waiting(&engine, runs).await?;
    engine.shutdown().await?;
    Ok(took)
}

/// Checks that so many runs wait.
async fn waiting(engine: &Engine, runs: u32) -> kit::Result<()> {
    let found = engine.count(RunFilter::new().status(Status::Waiting)).await?;
    if found != u64::from(runs) {
        return Err(format!("{found} runs wait of {runs}").into());
    }
    Ok(())
}

/// Sends a signal to a run that waits: how long until its durable result.
async fn wake(engine: Engine, run: u32) -> kit::Result<Duration> {
    let handle = engine.handle::<wait>(id(run)).await?;
    let begun = Instant::now();
    engine.signal(handle.id(), "wake", "wake", &1_u64).await?;
    let result = handle.result().await?;
    let took = begun.elapsed();
    if result != u64::from(run) + 1 {
        return Err(format!("run {run} returned {result}").into());
    }
    Ok(took)
}

/// Wakes these runs one after the other.
async fn one_by_one(engine: &Engine, runs: &[u32]) -> kit::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for &run in runs {
        times.push(wake(engine.clone(), run).await?);
    }
    times.sort_unstable();
    Ok(times)
}

/// Wakes a hundred of these runs a second.
async fn at_a_rate(engine: &Engine, runs: &[u32]) -> kit::Result<Vec<Duration>> {
    let (mut ticks, mut wakes, mut times) = (tokio::time::interval(EVERY), Vec::new(), Vec::new());
    for &run in runs {
        ticks.tick().await;
        wakes.push(tokio::spawn(wake(engine.clone(), run)));
    }
    for wake in wakes {
        times.push(wake.await??);
    }
    times.sort_unstable();
    Ok(times)
}

/// What the second process does.
async fn measure(path: &Path, runs: u32, signals: u32) -> kit::Result<()> {
    let (before, begun) = (memory::resident(), Instant::now());
    let store = SqliteStore::open(path)?;
    let open = begun.elapsed();
    let engine = Engine::builder().store(Arc::new(store)).start().await?;
    let start = begun.elapsed();
    tokio::time::sleep(SETTLING).await;
    let after = memory::resident();
    waiting(&engine, runs).await?;
    let mut chosen: Vec<u32> = (0..runs).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut chosen);
    let (first, rest) = chosen.split_at(signals as usize);
    let alone = one_by_one(&engine, first).await?;
    let rated = at_a_rate(&engine, &rest[..signals as usize]).await?;
    waiting(&engine, runs - 2 * signals).await?;
    engine.shutdown().await?;
    let grown = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    let figures = json!({
        "open_ms": open.as_secs_f64() * 1e3, "start_ms": start.as_secs_f64() * 1e3,
        "resident_before_mb": before.map(memory::mb), "resident_mb": after.map(memory::mb),
        "bytes_per_run": grown.map(|grown| grown as f64 / f64::from(runs)), "peak_mb": memory::peak_mb(),
        "wake_p50_ms": percentile_ms(&alone, 50), "wake_p99_ms": percentile_ms(&alone, 99),
        "rated_wake_p50_ms": percentile_ms(&rated, 50), "rated_wake_p99_ms": percentile_ms(&rated, 99),
    });
    println!("{figures}");
    Ok(())
}

/// Two appends of a bare writer, again and again.
async fn appends(path: &Path, rows: &[Row; 2], count: u32) -> kit::Result<Vec<Duration>> {
    let (writer, mut times) = (Writer::start(path)?, Vec::new());
    for run in 0..count {
        let (mut run, begun) = (writer.run(run), Instant::now());
        for row in rows {
            run.put(row).await?;
        }
        times.push(begun.elapsed());
    }
    let rows = writer.end()?.rows;
    if rows != 2 * u64::from(count) {
        return Err(format!("{rows} rows of {count} pairs").into());
    }
    Ok(times)
}

/// The first two frames of the file, as rows that are waited for.
fn rows(path: &str) -> kit::Result<[Row; 2]> {
    let texts = kit::journal::texts(Path::new(path), 0, 2)?;
    let [first, second] = texts.as_slice() else { return Err("the runs have no frames".into()) };
    Ok([first, second].map(|text| Row { text: Arc::clone(text), awaited: true }))
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let mut options = kit::options::Options::read();
    let (runs, signals) = (options.value("--runs", 10_000)?, options.value("--signals", 1_000)?);
    let second = options.text("--measure")?;
    let (json, files) = (options.flag("--json"), kit::place::Recorded::new(&mut options)?);
    options.end()?;
    if let Some(path) = second {
        return measure(Path::new(&path), runs, signals).await;
    }
    let signals = signals.min(runs / 3);
    let created = record(&files.draft(), runs).await?.as_secs_f64();
    let path = files.settled()?;
    let rows = rows(&path)?;
    let mut floor = appends(&files.folder().join("before.db"), &rows, signals).await?;
    let mut told =
        figures(&["--measure", &path, "--runs", &runs.to_string(), "--signals", &signals.to_string()])?;
    floor.extend(appends(&files.folder().join("after.db"), &rows, signals).await?);
    floor.sort_unstable();
    told["runs"] = runs.into();
    told["signals"] = signals.into();
    told["created_s"] = created.into();
    outcome(told, &floor, json)
}

/// Tells what the second process has measured, beside the floor.
fn outcome(mut told: Value, floor: &[Duration], json: bool) -> kit::Result<()> {
    let (floor_p50, floor_p99) = (percentile_ms(floor, 50), percentile_ms(floor, 99));
    let (p50, p99) = (number(&told, "wake_p50_ms")?, number(&told, "wake_p99_ms")?);
    let (rated_p50, rated_p99) = (number(&told, "rated_wake_p50_ms")?, number(&told, "rated_wake_p99_ms")?);
    let ratio = p50 / floor_p50;
    let text = format!(
        "{} waiting runs: open after {:.1} ms, started after {:.1} ms, {:.0} bytes of memory each; woken one by one p50 {p50:.2} ms, p99 {p99:.2} ms, a hundred a second p50 {rated_p50:.2} ms, p99 {rated_p99:.2} ms; two appends p50 {floor_p50:.2} ms, p99 {floor_p99:.2} ms, ratio {ratio:.2}",
        told["runs"],
        number(&told, "open_ms")?,
        number(&told, "start_ms")?,
        told["bytes_per_run"].as_f64().unwrap_or(f64::NAN),
    );
    for (name, value) in [
        ("floor_two_appends_p50_ms", floor_p50),
        ("floor_two_appends_p99_ms", floor_p99),
        ("ratio", ratio),
        ("ratio_p99", p99 / floor_p99),
        ("rated_ratio", rated_p50 / floor_p50),
        ("rated_ratio_p99", rated_p99 / floor_p99),
    ] {
        told[name] = value.into();
    }
    tell(json, "park", told, &text);
    Ok(())
}
