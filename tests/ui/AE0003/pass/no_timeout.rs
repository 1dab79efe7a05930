#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool", timeout = "none")]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
