#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx) -> Result<Vec<u32>> {
    let _ = cx;
    Ok(vec![3])
}

fn main() {}
