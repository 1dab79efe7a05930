//! What the command line costs a program whose file it looks into: steps per second of 500 runs, with commands beside them
//! and without.
//!
//! `cargo bench -p aether-cli --bench beside -- [--runs 500] [--rounds 10] [--seconds 4] [--every-ms 1000] [--json]`
//!
//! Rounds without commands and with them take turns, so that what else the machine does falls on both. The commands are
//! processes of their own, one after the other, one each `--every-ms`. Printed are the medians over the rounds, their
//! ratio, how many commands there were, how long the median one took, and how many failed.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aether::prelude::*;

/// Counts the steps of all runs, and says when they may end.
#[derive(Clone, Debug, Default)]
struct Work(Arc<(AtomicU64, AtomicBool)>);

/// Do a bit of work; whether there is more.
#[step(effect = "tool", needs(Work))]
async fn work(cx: &mut StepCx) -> Result<bool> {
    let shared = Arc::clone(&cx.dep::<Work>()?.0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    shared.0.fetch_add(1, Ordering::Relaxed);
    Ok(!shared.1.load(Ordering::Relaxed))
}

/// Work until told to end.
#[workflow]
async fn worker(cx: &mut Cx) -> Result<()> {
    while work(cx).await? {}
    Ok(())
}

/// What people ask of a file that lives.
const COMMANDS: [&[&str]; 8] = [
    &["runs", "list"],
    &["runs", "list", "--status", "running", "--json"],
    &["runs", "show", "run-7"],
    &["runs", "history", "run-7", "--limit", "20"],
    &["inbox", "list"],
    &["ledger", "run-7"],
    &["db", "status"],
    &["doctor"],
];

fn option(name: &str, default: u64) -> u64 {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn median<T: Copy + PartialOrd>(mut values: Vec<T>) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied()
}

/// Steps per second of one round, and the times of its commands; those that failed took `None`.
async fn round(
    work: &Work,
    span: Duration,
    commands: Option<(&str, Duration)>,
) -> (f64, Vec<Option<Duration>>) {
    let (began, before) = (Instant::now(), work.0.0.load(Ordering::Relaxed));
    let mut times = Vec::new();
    while let Some((file, every)) = commands.filter(|_| began.elapsed() < span) {
        let command = COMMANDS[times.len() % COMMANDS.len()];
        let asked = Instant::now();
        let mut process = Command::new(env!("CARGO_BIN_EXE_aether"));
        process.args(["--db", file]).args(command).stdin(Stdio::null()).stdout(Stdio::null());
        let ended = tokio::task::spawn_blocking(move || process.status()).await;
        let is_well = ended.is_ok_and(|status| status.is_ok_and(|status| status.success()));
        if !is_well {
            eprintln!("{command:?} failed");
        }
        times.push(is_well.then(|| asked.elapsed()));
        tokio::time::sleep(every.saturating_sub(asked.elapsed())).await;
    }
    tokio::time::sleep(span.saturating_sub(began.elapsed())).await;
    #[allow(clippy::cast_precision_loss, reason = "a number of steps")]
    let steps = (work.0.0.load(Ordering::Relaxed) - before) as f64;
    (steps / began.elapsed().as_secs_f64(), times)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (runs, rounds) = (option("--runs", 500), option("--rounds", 10));
    let span = Duration::from_secs(option("--seconds", 4));
    let every = Duration::from_millis(option("--every-ms", 1_000));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.db");
    let file = path.to_str().ok_or("the temporary folder has a name that is no text")?;
    let all = Work::default();
    let engine = Engine::builder().sqlite(&path).provide(all.clone()).start().await?;
    for number in 0..runs {
        engine.start::<worker>(()).id(format!("run-{number}")).await?;
    }
    round(&all, span, None).await;
    let (mut alone, mut beside, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(round(&all, span, None).await.0);
        let (steps, took) = round(&all, span, Some((file, every))).await;
        beside.push(steps);
        times.extend(took);
    }
    all.0.1.store(true, Ordering::Relaxed);
    engine.shutdown().await?;
    let failed = times.iter().filter(|time| time.is_none()).count();
    let commands = times.len();
    let took = median(times.into_iter().flatten().collect()).unwrap_or_default();
    let (alone, beside) = (median(alone).unwrap_or_default(), median(beside).unwrap_or_default());
    let ratio = beside / alone;
    if std::env::args().any(|arg| arg == "--json") {
        println!(
            r#"{{"runs":{runs},"alone_steps_per_s":{alone:.0},"beside_steps_per_s":{beside:.0},"ratio":{ratio:.3},"commands":{commands},"failed":{failed},"command_ms":{}}}"#,
            took.as_millis()
        );
    } else {
        println!("{runs} runs: {alone:.0} steps/s alone, {beside:.0} beside commands, ratio {ratio:.3}");
        println!("{commands} commands, median {took:.1?}, {failed} failed");
    }
    Ok(())
}
