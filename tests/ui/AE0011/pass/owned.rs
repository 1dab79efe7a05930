#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: &str) -> Result<String> {
    let _ = cx;
    Ok(id.to_owned())
}

fn main() {}
