#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn load(cx: &mut StepCx) -> Result<String> {
    let _ = cx;
    Ok(std::fs::read_to_string("a.txt")?)
}

fn main() {}
