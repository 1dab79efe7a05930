#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    println!("sent");
    Ok(())
}

fn main() {}
