//! A business key that another try would compute otherwise.

use aether::prelude::*;

#[step(effect = "tool", irreversible, key = |order| format!("{order}/{:?}", std::time::SystemTime::now()))]
async fn ship(_cx: &mut StepCx, order: String) -> Result<String> {
    Ok(order)
}

#[step(effect = "tool", approval = |cents| *cents > std::env::var("LIMIT").map_or(0, |limit| limit.len() as u64))]
async fn pay(_cx: &mut StepCx, cents: u64) -> Result<u64> {
    Ok(cents)
}

fn main() {}
