#![deny(warnings)]

use aether::prelude::*;

#[workflow(allow(env, reason = "the region never changes"))]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = std::env::var("REGION");
    Ok(())
}

fn main() {}
