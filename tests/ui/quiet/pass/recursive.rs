#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn count(cx: &mut Cx, left: u32) -> Result<u32> {
    if left == 0 {
        return Ok(0);
    }
    Ok(count(cx, left - 1).await? + 1)
}

fn main() {}
