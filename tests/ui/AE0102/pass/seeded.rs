#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let seed = cx.seed().await;
    let number = u64::from(seed[0]).wrapping_mul(31) ^ cx.random().await;
    let random = number % 6;
    let _ = random;
    Ok(())
}

fn main() {}
