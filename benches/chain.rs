//! Chains of trivial steps through the whole engine: macros, gate, journal, ledger, store.
//!
//! `cargo bench --bench chain -- --store sqlite|memory --class tool|read --runs R --steps S --inflight C --json`
//!
//! Every run is one workflow of S sequential steps whose results are about 100 bytes. A run counts from its start to
//! its durable result. The database is a new file in the directory given by `--dir` (default: the target directory).

#[path = "chain/flows.rs"]
mod flows;

use std::path::PathBuf;
use std::time::Duration;

use aether::prelude::*;
use flows::Class;

struct Options {
    store: String,
    class: Class,
    runs: u32,
    steps: u32,
    inflight: u32,
    json: bool,
    dir: PathBuf,
}

impl Options {
    fn parse() -> std::result::Result<Self, String> {
        let mut options = Self {
            store: "sqlite".into(),
            class: Class::Tool,
            runs: 2_000,
            steps: 10,
            inflight: 64,
            json: false,
            dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            let number = |text: String| text.parse::<u32>().map_err(|e| format!("{text}: {e}"));
            match arg.as_str() {
                "--store" => options.store = value()?,
                "--class" => options.class = value()?.parse()?,
                "--runs" => options.runs = number(value()?)?.max(1),
                "--steps" => options.steps = number(value()?)?,
                "--inflight" => options.inflight = number(value()?)?.max(1),
                "--dir" => options.dir = value()?.into(),
                "--json" => options.json = true,
                "--bench" => {}
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(options)
    }
}

async fn measure(options: &Options) -> std::result::Result<(Duration, Vec<Duration>), String> {
    let dir = tempfile::tempdir_in(&options.dir).map_err(|e| e.to_string())?;
    let builder = Engine::builder();
    let builder = match options.store.as_str() {
        "sqlite" => builder.sqlite(dir.path().join("chain.db")),
        "memory" => builder.memory(),
        other => return Err(format!("unknown store {other}: sqlite or memory")),
    };
    let engine = builder.start().await.map_err(|e| e.to_string())?;
    let size = (options.runs, options.steps, options.inflight);
    let measured = flows::lanes(&engine, options.class, size).await?;
    engine.shutdown().await.map_err(|e| e.to_string())?;
    Ok(measured)
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let outcome = match Options::parse() {
        Ok(options) => measure(&options).await.map(|measured| (options, measured)),
        Err(error) => Err(error),
    };
    let (options, (elapsed, times)) = match outcome {
        Ok(measured) => measured,
        Err(error) => {
            eprintln!("chain: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    let steps = f64::from(options.runs) * f64::from(options.steps);
    let millis = |quantile: usize| times[(times.len() - 1) * quantile / 100].as_secs_f64() * 1e3;
    let (seconds, p50, p99) = (elapsed.as_secs_f64(), millis(50), millis(99));
    let rate = steps / seconds;
    if options.json {
        println!(
            "{}",
            serde_json::json!({
                "engine": format!("aether-{}", options.store), "class": options.class.name(), "runs": options.runs,
                "steps": options.steps, "conc": options.inflight, "seconds": seconds, "steps_per_s": rate,
                "run_p50_ms": p50, "run_p99_ms": p99,
            })
        );
    } else {
        println!(
            "{} {}: {} runs of {} steps, {} in flight: {seconds:.2} s, {rate:.0} steps/s, run p50 {p50:.2} ms, p99 {p99:.2} ms",
            options.store,
            options.class.name(),
            options.runs,
            options.steps,
            options.inflight
        );
    }
    std::process::ExitCode::SUCCESS
}
