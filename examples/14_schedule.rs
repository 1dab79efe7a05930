//! A run that starts by the clock: declared again at every start, paused, and caught up with by hand.
//!
//! Run: `cargo run --example 14_schedule`. Nobody waits for three o'clock: a tick that was missed is asked for by hand,
//! twice, and has one run.

use aether::prelude::*;
use aether::schedule::{CatchUp, Cron, Overlap};

/// Sum up a day.
#[step(effect = "read")]
async fn sum_up(_cx: &mut StepCx, day: String) -> Result<String> {
    Ok(format!("report of {day}"))
}

/// Write the report of the day before.
#[workflow]
async fn nightly(cx: &mut Cx) -> Result<String> {
    let tick = cx.scheduled_for().ok_or_else(|| Failure::permanent("this run has no tick"))?;
    let day = tick - aether::jiff::SignedDuration::from_hours(24);
    Ok(sum_up(cx, day.strftime("%F").to_string()).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("reports.db");
    for start in 1..=2 {
        let engine = Engine::builder().sqlite(&file).start().await?;
        let schedule = engine
            .schedule::<nightly>("0 3 * * *", "UTC")
            .overlap(Overlap::Wait)
            .catch_up(CatchUp::All(7))
            .await?;
        let record = schedule.record().await?;
        println!("start {start}: `{}` is paused: {}", schedule.name(), record.paused);

        let spec = record.spec;
        let from = "2026-03-01T00:00:00Z".parse().map_err(|error| Failure::permanent(format!("{error}")))?;
        for tick in Cron::parse(&spec.cron, &spec.zone)?.after(from).take(2) {
            let run = schedule.trigger_for(tick).await?;
            println!(
                "  {}: {}",
                run.id(),
                engine.handle::<nightly>(run.id().as_str()).await?.result().await?
            );
        }
        // The next start declares it again, and it stays paused.
        schedule.pause().await?;
        engine.shutdown().await?;
    }
    Ok(())
}
