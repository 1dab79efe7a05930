#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool", irreversible, on_unknown = "ask")]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
