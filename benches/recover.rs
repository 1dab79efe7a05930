//! Recovery: how fast a journal is read and replayed.
//!
//! `cargo bench --bench recover -- [--steps S] [--json]`
//!
//! One run of S recorded steps (default 10,000) is cut off before its last step, by dropping its engine. A second engine
//! on the same file takes it up. Measured is the time from opening the store to the durable result; bodies of recorded
//! steps are counted, and there must be none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use aether::prelude::*;

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

#[tokio::main]
async fn main() -> aether::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let steps = match args.iter().position(|arg| arg == "--steps") {
        Some(at) => args.get(at + 1).map_or("", String::as_str).parse::<u32>()?,
        None => 10_000,
    };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = dir.path().join("recover.db");

    let gauge = Arc::new(Gauge::default());
    let engine = Engine::builder().sqlite(&path).provide(Arc::clone(&gauge)).start().await?;
    let run = engine.start::<long>(steps).id("long").await?;
    while gauge.calls.load(Ordering::Relaxed) < u64::from(steps) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    drop(run);
    // Lets nothing finish: the last step never would.
    engine.shutdown_within(std::time::Duration::ZERO).await?;

    let gauge = Arc::new(Gauge { open: true.into(), ..Gauge::default() });
    let begun = Instant::now();
    let engine = Engine::builder().sqlite(&path).provide(Arc::clone(&gauge)).start().await?;
    let run = engine.handle::<long>("long").await?;
    let length = run.result().await?;
    let seconds = begun.elapsed().as_secs_f64();
    let calls = gauge.calls.load(Ordering::Relaxed);
    if length != 100 * steps as usize || calls != 0 {
        Err(Failure::permanent(format!("{length} bytes, {calls} bodies called: recovery is wrong")))?;
    }
    let begun = Instant::now();
    let verified = engine.verify(run.id()).await?;
    let verify_seconds = begun.elapsed().as_secs_f64();
    let events = engine.view(run.id()).await?.position;
    engine.shutdown().await?;
    if args.iter().any(|arg| arg == "--json") {
        println!(
            "{}",
            serde_json::json!({
                "engine": "aether-sqlite", "steps": steps, "events": events, "seconds": seconds,
                "events_per_s": events as f64 / seconds, "verify_seconds": verify_seconds,
                "matched": verified.matched, "body_calls": calls,
            })
        );
    } else {
        println!(
            "{events} events of {steps} steps recovered in {seconds:.3} s ({:.0} events/s), {calls} bodies called; verified in {verify_seconds:.3} s, {} of {} answers matched",
            events as f64 / seconds,
            verified.matched,
            verified.recorded
        );
    }
    Ok(())
}
