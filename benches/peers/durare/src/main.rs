//! The chain on durare: `sqlite:` or `postgres:` URLs, with the settings that durare chooses itself.

#[path = "../../lanes.rs"]
mod lanes;

use std::sync::Arc;

use durare::{DurableContext, DurableEngine, WorkflowOptions};
use serde_json::json;

#[durare::step]
async fn send(_ctx: &DurableContext, number: u32) -> durare::Result<String> {
    Ok(lanes::result_of(number))
}

#[durare::workflow]
async fn chain(ctx: DurableContext, steps: u32) -> durare::Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length += send(&ctx, number).await?.len();
    }
    Ok(length)
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let asked = lanes::Chain::parse()?;
    let told = |error: durare::Error| error.to_string();
    let engine = DurableEngine::connect(&asked.at).await.map_err(told)?.build().await.map_err(told)?;
    let engine = Arc::new(engine);
    let about = match asked.at.starts_with("sqlite:") {
        true => json!({ "peer": "durare 0.5.0", "store": "SQLite, synchronous=NORMAL" }),
        false => json!({ "peer": "durare 0.5.0" }),
    };
    let steps = asked.steps;
    let one = move |id: String| {
        let engine = Arc::clone(&engine);
        async move {
            let run = engine.start_with(Chain, steps, WorkflowOptions::with_id(id)).await.map_err(told)?;
            run.await.map_err(told)
        }
    };
    asked.measure(one, about).await
}
