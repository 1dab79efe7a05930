#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    let first = cx.version("use-baz", 1..=2).await;
    let other = cx.version("greet", 2..=3).await;
    let again = cx.version("use-baz", 1..=2).await;
    Ok(first + other + again)
}

fn main() {}
