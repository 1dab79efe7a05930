//! Time, UUIDs and randomness are drawn once and recorded: every replay sees the same values.
//!
//! Run: `cargo run --example 05_time_uuid_random`. The run is stopped half-way and resumed by a second engine, which
//! executes the workflow from its first line; the values do not change.

use std::time::Duration;

use aether::prelude::*;

/// Draw a ticket, wait, and look at it again.
#[workflow]
async fn draw(cx: &mut Cx) -> Result<String> {
    let opened = cx.now().await;
    let ticket = cx.uuid().await;
    let number = cx.random().await % 100;
    // Not an effect: a plain value made of recorded ones. It is computed again on every replay, and equals itself.
    let line = format!("{opened} ticket {ticket} number {number}");
    note(cx, &line).await?;
    cx.sleep(Duration::from_millis(300)).await;
    note(cx, &line).await?;
    Ok(line)
}

/// Print a line. Clock, UUID and randomness of a step's body come from its context, constant for one attempt.
#[step(effect = "tool")]
async fn note(cx: &mut StepCx, line: &str) -> Result<()> {
    println!("{line}\n  (this call: {} and {})", cx.now(), cx.uuid());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("draw.db");
    let first = Engine::builder().sqlite(&file).start().await?;
    let run = first.start::<draw>(()).id("draw-1").await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("-- stopped: {} --", run.status().await?);
    first.shutdown().await?;

    let second = Engine::builder().sqlite(&file).start().await?;
    let run = second.handle::<draw>("draw-1").await?;
    println!("result: {}", run.result().await?);
    println!("{:?}", second.verify(run.id()).await?);
    second.shutdown().await?;
    Ok(())
}
