//! A step declares what kind of contact with the world it is, and the engine treats it accordingly.
//!
//! Run: `cargo run --example 02_steps_and_effects`. It prints what each class leaves in the journal.

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    item: String,
    count: u32,
}

/// `pure`: touches nothing, has no context, leaves no event, and simply runs again on replay.
#[step(effect = "pure")]
async fn total(price: u32, count: u32) -> Result<u32> {
    price.checked_mul(count).ok_or_else(|| Failure::permanent("the total is too large"))
}

/// `read`: looks at the world. Retried after errors; its answer is recorded and never asked for again.
#[step(effect = "read")]
async fn price_of(_cx: &mut StepCx, item: &str) -> Result<u32> {
    match item {
        "tea" => Ok(4),
        other => Err(Failure::permanent(format_args!("no such item: {other}"))),
    }
}

/// `tool`: changes the world. The intent is durable before the body runs, and it is never blindly run twice.
#[step(effect = "tool")]
async fn charge(cx: &mut StepCx, amount: u32) -> Result<String> {
    Ok(format!("receipt for {amount}, key {}", cx.idempotency_key()))
}

/// Buy something.
#[workflow]
async fn buy(cx: &mut Cx, order: Order) -> Result<String> {
    let price = price_of(cx, &order.item).await?;
    let amount = total(cx, price, order.count).await?;
    let receipt = charge(cx, amount).await?;
    Ok(receipt)
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::builder().memory().start().await?;
    let run = engine.start::<buy>(Order { item: "tea".into(), count: 3 }).await?;
    println!("{}\n", run.result().await?);
    for frame in engine.store().load(run.id(), 0).await? {
        let kinds: Vec<String> = frame.events()?.iter().map(|event| event.kind()).collect();
        println!("event {:>2}: {}", frame.position, kinds.join(", "));
    }
    Ok(())
}
