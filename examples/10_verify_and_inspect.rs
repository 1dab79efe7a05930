//! Inspecting a run without executing it: its view, its ledger, a verification, and plain SQL over its history.
//!
//! Run: `cargo run --example 10_verify_and_inspect`.

use aether::prelude::*;
use rusqlite::Connection;

/// Find a seat.
#[step(effect = "read")]
async fn find_seat(_cx: &mut StepCx, row: u32) -> Result<String> {
    Ok(format!("{row}C"))
}

/// Reserve a seat.
#[step(effect = "tool", irreversible, key = |seat| format!("seat {seat}"))]
async fn reserve(cx: &mut StepCx, seat: &str) -> Result<String> {
    cx.changed("seat", seat, "reserve").version("2");
    Ok(format!("{seat} is yours"))
}

/// Reserve a seat, and try it a second time.
#[workflow]
async fn travel(cx: &mut Cx, row: u32) -> Result<String> {
    let seat = find_seat(cx, row).await?;
    let reserved = reserve(cx, &seat).await?;
    let again = reserve(cx, &seat).await;
    Ok(format!("{reserved}; the second time: {}", again.err().map_or("done".into(), |e| e.to_string())))
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("travel.db");
    let engine = Engine::builder().sqlite(&file).start().await?;
    let run = engine.start::<travel>(12).id("travel-1").await?;
    println!("result: {}\n", run.result().await?);

    println!("The view, a fold over the journal:");
    let view = engine.view(run.id()).await?;
    for step in &view.steps {
        println!("  {:<14} {:<10} {:?}", step.command.as_str(), step.status.as_str(), step.outcome);
    }
    println!("The ledger, one row for each granted world change:");
    for row in engine.ledger(run.id()).await? {
        println!("  {:<30} {}", row.key.as_str(), row.status.as_str());
    }
    println!("The verification, a replay that may call nothing:\n  {}", engine.verify(run.id()).await?);
    engine.shutdown().await?;

    println!("The history, in SQL:");
    let db = Connection::open(&file)?;
    let mut query =
        db.prepare("SELECT position, kind, substr(event, 1, 60) FROM aether_history WHERE run = 'travel-1'")?;
    let mut rows = query.query(())?;
    while let Some(row) = rows.next()? {
        println!(
            "  {:>2} {:<25} {}",
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?
        );
    }
    Ok(())
}
