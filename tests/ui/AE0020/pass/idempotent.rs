#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool", retry(max = 3), idempotent)]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", retry(max = 3))]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
