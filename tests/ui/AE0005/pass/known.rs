#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
