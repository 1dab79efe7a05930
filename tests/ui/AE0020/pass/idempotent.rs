#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool", retry(max_retries = 3), idempotent)]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", retry(max_retries = 3))]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
