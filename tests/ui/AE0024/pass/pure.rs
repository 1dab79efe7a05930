#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "pure")]
async fn add(a: u32, b: u32) -> Result<u32> {
    Ok(a + b)
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    Ok(add(cx, 1, 2).await?)
}

fn main() {}
