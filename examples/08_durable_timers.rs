//! A wait that outlives the process: a sleeping run lives only in the store, and resumes when it is due.
//!
//! Run: `cargo run --example 08_durable_timers`. The engine stops while the run sleeps, and a second one resumes it. The
//! time in between counts.

use std::time::{Duration, Instant};

use aether::prelude::*;

/// Ring.
#[step(effect = "tool")]
async fn ring(cx: &mut StepCx, time: u32) -> Result<()> {
    println!("  ring {time}, at {}", cx.now());
    Ok(())
}

/// Ring, wait two seconds, ring again.
#[workflow]
async fn alarm(cx: &mut Cx) -> Result<String> {
    let set = cx.now().await;
    ring(cx, 1).await?;
    cx.sleep(Duration::from_secs(2)).await;
    ring(cx, 2).await?;
    let rung = cx.now().await;
    Ok(format!("{:.1} s by the recorded clock", rung.duration_since(set).as_secs_f64()))
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("alarm.db");
    let started = Instant::now();
    let since = || format!("{:.1} s", started.elapsed().as_secs_f64());

    let first = Engine::builder().sqlite(&file).start().await?;
    first.start::<alarm>(()).id("alarm-1").await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    first.shutdown().await?;
    println!("{}: no engine runs", since());
    tokio::time::sleep(Duration::from_millis(700)).await;

    let second = Engine::builder().sqlite(&file).start().await?;
    println!("{}: another engine runs", since());
    let run = second.handle::<alarm>("alarm-1").await?;
    let result = run.result().await?;
    println!("{}: {result}", since());
    second.shutdown().await?;
    Ok(())
}
