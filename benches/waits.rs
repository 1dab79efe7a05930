//! The list of open waits: what it costs to list what many runs wait for.
//!
//! `cargo bench --bench waits -- [--runs R] [--dir DIR] [--json]`
//!
//! R runs (default 10,000) are started that each wait for a person. Measured are one page of 100 waits and all of them
//! from the list, and the same from the journals of all runs, which is what a store without a list would have to read.

#[path = "kit/mod.rs"]
mod kit;

use std::time::{Duration, Instant};

use aether::people::WaitFilter;
use aether::prelude::*;
use aether::store::RunFilter;
use kit::figures::tell;
use kit::progress::until;
use serde_json::json;

/// Wait for a decision.
#[workflow]
async fn claim(cx: &mut Cx, number: u32) -> Result<String> {
    Ok(cx.approval("payout").details(&number).await?.granted()?)
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let mut options = kit::options::Options::read();
    let runs = options.value("--runs", 10_000_u32)?;
    let (json, folder) = (options.flag("--json"), kit::place::folder(&mut options)?);
    options.end()?;
    let dir = tempfile::tempdir_in(folder)?;
    let grace = Duration::from_millis(50);
    let engine = Engine::builder().sqlite(dir.path().join("waits.db")).eviction_grace(grace).start().await?;
    for run in 0..runs {
        engine.start::<claim>(run).id(format!("claim-{run}")).await?;
    }
    let everything = WaitFilter::default();
    let waiting = async || Ok(engine.all_pending(everything.clone()).await?.waits.len() as u64);
    until("runs wait", runs.into(), Duration::from_millis(100), waiting).await?;

    let millis = |begun: Instant| begun.elapsed().as_secs_f64() * 1e3;
    let begun = Instant::now();
    let page = engine.all_pending(WaitFilter { limit: 100, ..WaitFilter::for_reply() }).await?.waits.len();
    let page_ms = millis(begun);
    let begun = Instant::now();
    let listed = engine.all_pending(everything).await?.waits.len();
    let list_ms = millis(begun);
    let (begun, mut read) = (Instant::now(), 0);
    for run in engine.runs(RunFilter::default()).await? {
        read += engine.pending(&run.id).await?.len();
    }
    let journals_ms = millis(begun);
    engine.shutdown().await?;
    if (page, listed, read) != (100.min(runs as usize), runs as usize, runs as usize) {
        return Err(format!("{page}, {listed} and {read} waits were listed of {runs}").into());
    }
    let ratio = list_ms / journals_ms;
    let figures = json!({
        "engine": "aether-sqlite", "runs": runs, "page_waits": page, "page_ms": page_ms, "list_ms": list_ms,
        "floor_journals_ms": journals_ms, "ratio": ratio,
    });
    let text = format!(
        "a page of {page} waits: {page_ms:.2} ms\nall {listed} waits: {list_ms:.2} ms\nall {read} waits, from the journals: {journals_ms:.2} ms, ratio {ratio:.3}"
    );
    tell(json, "waits", figures, &text);
    Ok(())
}
