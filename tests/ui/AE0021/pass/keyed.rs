#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool", on_unknown = "retry", key = |order: &str| order.trim())]
async fn send(cx: &mut StepCx, order: &str) -> Result<()> {
    let _ = (cx, order);
    Ok(())
}

fn main() {}
