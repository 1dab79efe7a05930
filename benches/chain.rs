//! Chains of trivial steps through the whole engine: macros, gate, journal, ledger, store.
//!
//! `cargo bench --bench chain -- --store sqlite|memory --class tool|read --runs R --steps S --inflight C --json`
//!
//! Every run is one workflow of S sequential steps whose results are about 100 bytes. A run counts from its start to
//! its durable result. The database is a new file in the directory given by `--dir` (default: the target directory).
//! `--fill N` first brings N events into the file, by chains of the same class. Of `--store`, `--class` and `--inflight`
//! several may be given, with commas between them: an outcome for each. `--steps` may be up to 100,000.
//!
//! The floor is a bare group-commit writer that writes the frames of the same chains in the same folder, once before the
//! engine and once after it; the median counts. Of tool steps it waits for the frames with which bodies begin, of read
//! steps for the last frame of a run alone. The ratio is the engine's steps per second over the floor's. The memory store
//! has none. Told are as well the bytes by which the file grew for each step, and their ratio to the events' own JSON.

#[allow(dead_code, reason = "its modes are those of the classes")]
#[path = "chain/bare.rs"]
mod bare;
#[path = "chain/flows.rs"]
mod flows;
#[path = "kit/mod.rs"]
mod kit;
#[path = "chain/recorded.rs"]
mod recorded;

use std::path::{Path, PathBuf};
use std::time::Duration;

use aether::prelude::*;
use bare::Mode;
use flows::Class;
use kit::figures::{median, percentile_ms, tell};
use kit::journal::Sizes;
use serde_json::json;

/// The chains that fill a file: their steps, and how many run at the same time.
const FILL: (u32, u32) = (100, 500);

struct Options {
    stores: Vec<String>,
    classes: Vec<Class>,
    /// Runs of each outcome; chosen by `inflight` where none are given.
    runs: u32,
    steps: u32,
    inflight: Vec<u32>,
    fill: u64,
    json: bool,
    dir: PathBuf,
}

impl Options {
    fn parse() -> kit::Result<Self> {
        let mut given = kit::options::Options::read();
        let options = Self {
            stores: given.list("--store", vec!["sqlite".into()])?,
            classes: given.list("--class", vec![Class::Tool])?,
            runs: given.value("--runs", 0)?,
            steps: given.value("--steps", 10)?,
            inflight: given.list("--inflight", vec![64])?,
            fill: given.value("--fill", 0)?,
            json: given.flag("--json"),
            dir: kit::place::folder(&mut given)?,
        };
        given.end()?;
        Ok(options)
    }

    fn runs(&self, inflight: u32) -> u32 {
        match (self.runs, inflight) {
            // Seconds, not tenths: what a new file and new threads cost at first should not count.
            (0, ..8) => 1_000 * inflight,
            (0, ..=100) => 6_000,
            (0, _) => 10 * inflight,
            (runs, _) => runs,
        }
    }
}

/// What one measurement is about.
#[derive(Clone, Copy)]
struct Case<'o> {
    options: &'o Options,
    store: &'o str,
    class: Class,
    inflight: u32,
}

/// What the engine made of it.
struct Measured {
    all: Duration,
    runs: Vec<Duration>,
    growth: Option<Growth>,
}

/// By how much the file grew.
struct Growth {
    file_bytes: u64,
    json_bytes: u64,
    /// What was in it before.
    filled: u64,
}

impl Case<'_> {
    async fn engine(&self, path: &Path) -> kit::Result<Engine> {
        let builder = match self.store {
            "sqlite" => Engine::builder().sqlite(path),
            "memory" => Engine::builder().memory(),
            other => return Err(format!("unknown store {other}: sqlite or memory").into()),
        };
        Ok(builder.start().await?)
    }

    /// Brings as many events into the file as were asked for, and says how large it is then.
    async fn fill(&self, path: &Path) -> kit::Result<(u64, Sizes)> {
        let (steps, inflight) = FILL;
        let events: usize = recorded::frames(self.class, steps)
            .await?
            .iter()
            .map(|frame| Ok(frame.events()?.len()))
            .sum::<kit::Result<_>>()?;
        let runs = u32::try_from(self.options.fill.div_ceil(events as u64))?;
        let engine = self.engine(path).await?;
        flows::lanes(&engine, self.class, (runs, steps, inflight.min(runs.max(1)))).await?;
        engine.shutdown().await?;
        let sizes = kit::journal::sizes(path)?;
        if sizes.events < self.options.fill {
            return Err(format!("the file has {} events of {}", sizes.events, self.options.fill).into());
        }
        Ok((kit::place::bytes(path)?, sizes))
    }

    async fn measured(&self) -> kit::Result<Measured> {
        let dir = tempfile::tempdir_in(&self.options.dir)?;
        let path = dir.path().join("chain.db");
        let durable = self.store == "sqlite";
        let filled = if durable { Some(self.fill(&path).await?) } else { None };
        let engine = self.engine(&path).await?;
        let size = (self.options.runs(self.inflight), self.options.steps, self.inflight);
        let (all, runs) = flows::lanes(&engine, self.class, size).await?;
        engine.shutdown().await?;
        let growth = match filled {
            None => None,
            Some((bytes, sizes)) => Some(Growth {
                file_bytes: kit::place::bytes(&path)?.saturating_sub(bytes),
                json_bytes: kit::journal::sizes(&path)?.json_bytes - sizes.json_bytes,
                filled: sizes.events,
            }),
        };
        Ok(Measured { all, runs, growth })
    }

    fn rate(&self, took: Duration) -> f64 {
        let runs = self.options.runs(self.inflight);
        f64::from(runs) * f64::from(self.options.steps) / took.as_secs_f64()
    }

    /// Steps per second of the bare writer.
    async fn floor(&self) -> kit::Result<f64> {
        let dir = tempfile::tempdir_in(&self.options.dir)?;
        let mode = match self.class {
            Class::Tool => Mode::Tool,
            Class::Read => Mode::Read,
        };
        let rows = bare::rows(&recorded::frames(self.class, self.options.steps).await?, mode);
        let size = (self.options.runs(self.inflight), self.inflight);
        Ok(self.rate(kit::writer::lanes(&dir.path().join("bare.db"), &rows, size).await?.all))
    }

    async fn tell(&self) -> kit::Result<()> {
        let durable = self.store == "sqlite";
        let before = if durable { Some(self.floor().await?) } else { None };
        let measured = self.measured().await?;
        let after = if durable { Some(self.floor().await?) } else { None };
        let floor = before.zip(after).map(|(before, after)| median(vec![before, after]));
        let (seconds, rate) = (measured.all.as_secs_f64(), self.rate(measured.all));
        let (p50, p99) = (percentile_ms(&measured.runs, 50), percentile_ms(&measured.runs, 99));
        let (runs, steps) = (self.options.runs(self.inflight), self.options.steps);
        let all_steps = f64::from(runs) * f64::from(steps);
        let ratio = floor.map(|floor| rate / floor);
        let growth = measured.growth.as_ref();
        let per_step = growth.map(|growth| growth.file_bytes as f64 / all_steps);
        let json_per_step = growth.map(|growth| growth.json_bytes as f64 / all_steps);
        let bytes_ratio = growth.map(|growth| growth.file_bytes as f64 / growth.json_bytes as f64);
        let figures = json!({
            "engine": format!("aether-{}", self.store), "class": self.class.name(), "runs": runs, "steps": steps,
            "conc": self.inflight, "inflight": self.inflight, "filled_events": growth.map_or(0, |growth| growth.filled),
            "seconds": seconds, "steps_per_s": rate, "run_p50_ms": p50, "run_p99_ms": p99,
            "floor_steps_per_s": floor, "floor_before_steps_per_s": before, "floor_after_steps_per_s": after,
            "ratio": ratio, "file_bytes_per_step": per_step, "floor_json_bytes_per_step": json_per_step,
            "bytes_ratio": bytes_ratio,
        });
        let mut text = format!(
            "{} {}: {runs} runs of {steps} steps, {} in flight: {seconds:.2} s, {rate:.0} steps/s, run p50 {p50:.2} ms, p99 {p99:.2} ms",
            self.store,
            self.class.name(),
            self.inflight
        );
        if let (Some(floor), Some(ratio)) = (floor, ratio) {
            text += &format!("; the bare writer {floor:.0} steps/s, ratio {ratio:.2}");
        }
        if let (Some(per_step), Some(bytes_ratio)) = (per_step, bytes_ratio) {
            text += &format!("; {per_step:.0} bytes a step, {bytes_ratio:.2} of the events' JSON");
        }
        tell(self.options.json, "chain", figures, &text);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let options = Options::parse()?;
    for store in &options.stores {
        for &class in &options.classes {
            for &inflight in &options.inflight {
                Case { options: &options, store, class, inflight: inflight.max(1) }.tell().await?;
            }
        }
    }
    Ok(())
}
