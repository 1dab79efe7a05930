//! Concurrency without losing determinism: `join`, `race` and `each` give every branch a scope of its own.
//!
//! Run: `cargo run --example 06_join_race_each`. It prints the commands: `0.b1.0:fetch` is the first command of the
//! second branch of the run's first command, whichever branch was faster.

use std::time::Duration;

use aether::prelude::*;

/// Fetch a page; takes a while.
#[step(effect = "read")]
async fn fetch(_cx: &mut StepCx, page: &str, millis: u64) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(format!("<{page}>"))
}

/// Collect pages in three ways.
#[workflow]
async fn collect(cx: &mut Cx, pages: Vec<String>) -> Result<Vec<String>> {
    // All of a fixed number of branches.
    let (slow, fast) = cx
        .join((
            async |cx: &mut Cx| fetch(cx, "slow", 120).await,
            async |cx: &mut Cx| {
                let first = fetch(cx, "fast", 10).await?;
                fetch(cx, &first, 10).await
            },
        ))
        .await;

    // The first of several; the winner is recorded, so a replay has the same one.
    let first = cx
        .race((
            async |cx: &mut Cx| fetch(cx, "mirror 1", 10_000).await,
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_millis(50)).await;
                Ok("no answer came in time".into())
            },
        ))
        .await?;

    // One branch for each item, two at a time; the values come in the order of the items.
    let all = cx.each(pages, async |cx: &mut Cx, page| fetch(cx, &page, 20).await).limit(2).await;

    let mut found = vec![slow?, fast?, first];
    for page in all {
        found.push(page?);
    }
    Ok(found)
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::builder().memory().start().await?;
    let pages = ["a", "b", "c"].map(String::from).to_vec();
    let run = engine.start::<collect>(pages).await?;
    println!("{:?}\n", run.result().await?);
    for step in engine.view(run.id()).await?.steps {
        println!("{:<16} {}", step.command.as_str(), step.status);
    }
    Ok(())
}
