#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read", allow(clock, reason = "measures, decides nothing"))]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = (cx, std::time::Instant::now());
    Ok(())
}

fn main() {}
