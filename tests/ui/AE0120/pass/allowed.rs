#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read", allow(http, reason = "the vendor signs its requests"))]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let _ = reqwest::Client::new();
    Ok(())
}

fn main() {}
