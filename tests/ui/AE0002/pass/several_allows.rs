#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read", allow(clock, reason = "for a log line"), allow(uuid, reason = "for a log line"))]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
