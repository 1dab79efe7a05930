#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn home(cx: &mut StepCx) -> Result<String> {
    let _ = cx;
    Ok(std::env::var("HOME")?)
}

fn main() {}
