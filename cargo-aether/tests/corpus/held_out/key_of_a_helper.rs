//! The business key of a step, and its rule of approval, by helpers
//! how: random, env

use aether::prelude::*;

fn key_of(order: u64) -> String {
    format!("{order}-{}", uuid::Uuid::new_v4())
}

fn limit() -> u64 {
    std::env::var("LIMIT").ok().and_then(|limit| limit.parse().ok()).unwrap_or(100)
}

#[step(effect = "tool", key = |order| key_of(*order), approval = |cents| *cents > limit())]
async fn charge(cx: &mut StepCx, order: u64, cents: u64) -> Result<u64> {
    Ok(order + cents + u64::from(cx.attempt()))
}

#[workflow]
pub async fn key_of_a_helper(cx: &mut Cx, input: u64) -> Result<String> {
    Ok(charge(cx, input, 100).await?.to_string())
}
