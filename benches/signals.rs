//! Signals: what a message costs while many are unread, and how many a run takes in.
//!
//! `cargo bench --bench signals -- [--unread U] [--signals S] [--json]`
//!
//! U signals (default 6,000) are sent to a run that waits for another one; measured is the time of each of the last 100.
//! Then S signals (default 100,000) are sent to a run that takes them in as they come: measured are the time until all of
//! them are in its journal, and the largest memory of the process.

use std::time::Instant;

use aether::engine::Limits;
use aether::prelude::*;

/// Takes in `count` signals, after the word to begin.
#[workflow]
async fn collect(cx: &mut Cx, count: u32) -> Result<u64> {
    cx.signal::<()>("begin").await?;
    let mut sum = 0;
    for _ in 0..count {
        sum += u64::from(cx.signal::<u32>("item").await?);
    }
    Ok(sum)
}

fn number(args: &[String], name: &str, default: u32) -> aether::Result<u32> {
    Ok(match args.iter().position(|arg| arg == name) {
        Some(at) => args.get(at + 1).map_or("", String::as_str).parse()?,
        None => default,
    })
}

/// The largest memory of this process so far, in MB; 0 where the system does not say.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

async fn send(engine: &Engine, run: &RunHandle<collect>, from: u32, count: u32) -> aether::Result<()> {
    for item in from..from + count {
        engine.signal(run.id(), "item", &format!("item-{item}"), &1_u32).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> aether::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let (unread, signals) = (number(&args, "--unread", 6_000)?, number(&args, "--signals", 100_000)?);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let limits = Limits { inbox: usize::MAX, ..Limits::default() };
    let engine = Engine::builder().sqlite(dir.path().join("signals.db")).limits(limits).start().await?;

    let run = engine.start::<collect>(unread).id("unread").await?;
    let probes = unread.min(100);
    send(&engine, &run, 0, unread - probes).await?;
    let begun = Instant::now();
    send(&engine, &run, unread - probes, probes).await?;
    let per_message_ms = begun.elapsed().as_secs_f64() * 1000.0 / f64::from(probes.max(1));
    engine.signal(run.id(), "begin", "begin", &()).await?;
    let begun = Instant::now();
    let first = run.result().await?;
    let drain_seconds = begun.elapsed().as_secs_f64();

    let run = engine.start::<collect>(signals).id("stream").await?;
    engine.signal(run.id(), "begin", "begin", &()).await?;
    let begun = Instant::now();
    let senders = (0..8).map(|sender| {
        let (engine, run) = (engine.clone(), run.id().clone());
        tokio::spawn(async move {
            let run = engine.handle::<collect>(run.as_str()).await?;
            let share = signals / 8 + u32::from(sender < signals % 8);
            send(&engine, &run, sender * 1_000_000, share).await
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await??;
    }
    let second = run.result().await?;
    let seconds = begun.elapsed().as_secs_f64();
    if (first, second) != (u64::from(unread), u64::from(signals)) {
        Err(Failure::permanent(format!("{first} and {second} were taken in: signals are lost")))?;
    }
    engine.shutdown().await?;
    let peak_mb = peak_mb();
    if args.iter().any(|arg| arg == "--json") {
        println!(
            "{}",
            serde_json::json!({
                "engine": "aether-sqlite", "unread": unread, "per_message_ms": per_message_ms,
                "drain_seconds": drain_seconds, "signals": signals, "seconds": seconds,
                "signals_per_s": f64::from(signals) / seconds, "peak_mb": peak_mb,
            })
        );
    } else {
        println!(
            "{per_message_ms:.2} ms a message with {unread} unread, all taken in after {drain_seconds:.2} s"
        );
        println!("{signals} signals in {seconds:.1} s, at most {peak_mb} MB");
    }
    Ok(())
}
