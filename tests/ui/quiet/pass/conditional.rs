#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
#[cfg(any())]
async fn absent(cx: &mut StepCx) -> Result<()> {
    nothing
}

#[cfg(all())]
#[step(effect = "read")]
async fn present(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
