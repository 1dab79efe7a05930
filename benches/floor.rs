//! The floor of chains alone: what a disk and SQLite allow, without an engine.
//!
//! `cargo bench --bench floor -- --mode commit|tool|read --runs R --steps S --inflight C [--appends N] [--json]`
//!
//! A bare group-commit writer writes the frames of the bench `chain` into a new file in the directory given by `--dir`
//! (default: the target directory). With `commit` every frame of a chain of reads is waited for, with `tool` the frames
//! with which tools begin, with `read` the last one of a run. Of `--mode` and `--inflight` several may be given, with
//! commas between them: an outcome for each.
//!
//! The floor of that is how many small appends (default 2,000) to a plain file a second are each followed by `fdatasync`,
//! once before and once after the writer; the median counts. The ratio is the writer's transactions per second over it.

#[path = "chain/bare.rs"]
mod bare;
#[allow(dead_code, reason = "one chain is recorded, and none is measured")]
#[path = "chain/flows.rs"]
mod flows;
#[path = "kit/mod.rs"]
mod kit;
#[path = "chain/recorded.rs"]
mod recorded;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bare::Mode;
use flows::Class;
use kit::figures::{median, percentile_ms, tell};
use serde_json::json;

/// Bytes of an append to the plain file.
const APPEND: usize = 512;

struct Options {
    modes: Vec<Mode>,
    /// Runs of each outcome; chosen by `inflight` where none are given.
    runs: u32,
    steps: u32,
    inflight: Vec<u32>,
    appends: u32,
    json: bool,
    dir: PathBuf,
}

impl Options {
    fn parse() -> kit::Result<Self> {
        let mut given = kit::options::Options::read();
        let options = Self {
            modes: given.list("--mode", vec![Mode::Commit, Mode::Tool, Mode::Read])?,
            runs: given.value("--runs", 0)?,
            steps: given.value("--steps", 10)?,
            inflight: given.list("--inflight", vec![1, 64, 1_000])?,
            appends: given.value("--appends", 2_000)?,
            json: given.flag("--json"),
            dir: kit::place::folder(&mut given)?,
        };
        given.end()?;
        Ok(options)
    }

    fn runs(&self, inflight: u32) -> u32 {
        if self.runs > 0 { self.runs } else { (5 * inflight).max(200) }
    }
}

/// Appends to a plain file, each followed by `fdatasync`: the times of each, from the shortest to the longest.
fn appends(folder: &Path, count: u32) -> kit::Result<Vec<Duration>> {
    let (mut file, mut times) = (tempfile::tempfile_in(folder)?, Vec::new());
    for _ in 0..count {
        let begun = Instant::now();
        file.write_all(&[b'x'; APPEND])?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    if file.metadata()?.len() != u64::from(count) * APPEND as u64 {
        return Err("the plain file has not what was appended to it".into());
    }
    times.sort_unstable();
    Ok(times)
}

fn rate(times: &[Duration]) -> f64 {
    times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64()
}

async fn measure(options: &Options, mode: Mode, inflight: u32) -> kit::Result<()> {
    let class = if mode == Mode::Tool { Class::Tool } else { Class::Read };
    let rows = bare::rows(&recorded::frames(class, options.steps).await?, mode);
    let (dir, runs) = (tempfile::tempdir_in(&options.dir)?, options.runs(inflight));
    let before = appends(dir.path(), options.appends)?;
    let took = kit::writer::lanes(&dir.path().join("bare.db"), &rows, (runs, inflight)).await?;
    let after = appends(dir.path(), options.appends)?;
    let floor = median(vec![rate(&before), rate(&after)]);
    let (p50, p99) = (percentile_ms(&before, 50), percentile_ms(&before, 99));
    let seconds = took.all.as_secs_f64();
    let (steps, batches) =
        (f64::from(runs) * f64::from(options.steps) / seconds, took.written.batches as f64 / seconds);
    let (run_p50, run_p99) = (percentile_ms(&took.runs, 50), percentile_ms(&took.runs, 99));
    let (steps_of_run, ratio) = (options.steps, batches / floor);
    let figures = json!({
        "mode": mode.name(), "runs": runs, "steps": steps_of_run, "inflight": inflight, "seconds": seconds,
        "steps_per_s": steps, "rows_per_s": took.written.rows as f64 / seconds, "transactions_per_s": batches,
        "run_p50_ms": run_p50, "run_p99_ms": run_p99, "floor_fdatasyncs_per_s": floor, "floor_fdatasync_p50_ms": p50,
        "floor_fdatasync_p99_ms": p99, "ratio": ratio,
    });
    let text = format!(
        "{}: {runs} runs of {steps_of_run} steps, {inflight} in flight: {seconds:.2} s, {steps:.0} steps/s, {batches:.0} transactions/s, run p50 {run_p50:.2} ms, p99 {run_p99:.2} ms; {floor:.0} fdatasyncs/s (p50 {p50:.2} ms, p99 {p99:.2} ms), ratio {ratio:.2}",
        mode.name()
    );
    tell(options.json, "floor", figures, &text);
    Ok(())
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let options = Options::parse()?;
    for &mode in &options.modes {
        for &inflight in &options.inflight {
            measure(&options, mode, inflight.max(1)).await?;
        }
    }
    Ok(())
}
