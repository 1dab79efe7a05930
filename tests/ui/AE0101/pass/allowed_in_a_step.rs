#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read", allow(clock, reason = "only measures"))]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let begun = std::time::Instant::now();
    let _ = begun.elapsed();
    Ok(())
}

fn main() {}
