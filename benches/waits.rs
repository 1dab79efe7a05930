//! The list of open waits: what it costs to list what many runs wait for.
//!
//! `cargo bench --bench waits -- [--runs R]`
//!
//! R runs (default 10,000) are started that each wait for a person. Measured are one page of 100 waits and all of them
//! from the list, and the same from the journals of all runs, which is what a store without a list would have to read.

use std::time::{Duration, Instant};

use aether::people::WaitFilter;
use aether::prelude::*;
use aether::store::RunFilter;

/// Wait for a decision.
#[workflow]
async fn claim(cx: &mut Cx, number: u32) -> Result<String> {
    Ok(cx.approval("payout").details(&number).await?.granted()?)
}

fn number(args: &[String], name: &str, default: u32) -> aether::Result<u32> {
    Ok(match args.iter().position(|arg| arg == name) {
        Some(at) => args.get(at + 1).map_or("", String::as_str).parse()?,
        None => default,
    })
}

#[tokio::main]
async fn main() -> aether::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let runs = number(&args, "--runs", 10_000)?;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let grace = Duration::from_millis(50);
    let engine = Engine::builder().sqlite(dir.path().join("waits.db")).eviction_grace(grace).start().await?;
    for run in 0..runs {
        engine.start::<claim>(run).id(format!("claim-{run}")).await?;
    }
    let everything = WaitFilter::default();
    while engine.all_pending(everything.clone()).await?.waits.len() < runs as usize {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let begun = Instant::now();
    let page = engine.all_pending(WaitFilter { limit: 100, ..WaitFilter::for_reply() }).await?;
    println!("a page of {} waits: {:?}", page.waits.len(), begun.elapsed());
    let begun = Instant::now();
    let listed = engine.all_pending(everything).await?.waits.len();
    println!("all {listed} waits: {:?}", begun.elapsed());
    let (begun, mut read) = (Instant::now(), 0);
    for run in engine.runs(RunFilter::default()).await? {
        read += engine.pending(&run.id).await?.len();
    }
    println!("all {read} waits, from the journals: {:?}", begun.elapsed());
    engine.shutdown().await?;
    Ok(())
}
