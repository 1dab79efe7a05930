#![deny(warnings)]

use aether::prelude::*;

async fn sent(cx: &mut StepCx, to: &str) -> Result<Probe<u32>> {
    let _ = (cx, to);
    Ok(Probe::DidNotHappen)
}

#[step(effect = "tool", probe = sent)]
async fn send(cx: &mut StepCx, to: &str) -> Result<u32> {
    let _ = (cx, to);
    Ok(1)
}

fn main() {}
