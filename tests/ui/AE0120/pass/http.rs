#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "http")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let _ = reqwest::Client::new().get("http://localhost").send();
    Ok(())
}

fn main() {}
