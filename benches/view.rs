//! Views: how long the first view of a long run takes, and how much memory.
//!
//! `cargo bench --bench view -- [--steps S]`
//!
//! A run of S steps (default 100,000) is recorded. A second process, which this one starts, makes a view of it from the
//! whole journal; measured are its time and the largest memory of that process.

use std::path::Path;
use std::time::Instant;

use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store as _;
use aether::view::RunView;

#[step(effect = "tool")]
async fn send(_cx: &mut StepCx, number: u32) -> Result<String> {
    Ok(format!("{number:0>100}"))
}

#[workflow]
async fn long(cx: &mut Cx, steps: u32) -> Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length += send(cx, number).await?.len();
    }
    Ok(length)
}

/// The largest memory of this process so far, in MB; 0 where the system does not say.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// What the second process does.
async fn view(path: &Path) -> aether::Result<()> {
    let store = SqliteStore::open(path)?;
    let begun = Instant::now();
    let view = RunView::load(&store, &"long".parse::<aether::id::RunId>()?).await?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} events, {} steps in {seconds:.2} s, at most {} MB",
        view.position,
        view.steps.len(),
        peak_mb()
    );
    drop(view);
    Ok(store.close().await?)
}

#[tokio::main]
async fn main() -> aether::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    if let Some(path) = after("--view") {
        return view(Path::new(path)).await;
    }
    let steps = after("--steps").map_or(Ok(100_000), |steps| steps.parse::<u32>())?;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = dir.path().join("view.db");
    let engine = Engine::builder().sqlite(&path).start().await?;
    engine.start::<long>(steps).id("long").await?.result().await?;
    engine.shutdown().await?;
    let status = std::process::Command::new(std::env::current_exe()?).arg("--view").arg(&path).status()?;
    if !status.success() {
        Err(Failure::permanent("no view could be made"))?;
    }
    Ok(())
}
