#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let _ = cx.uuid();
    Ok(())
}

fn main() {}
