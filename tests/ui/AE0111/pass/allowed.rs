#![deny(warnings)]

use aether::prelude::*;

#[workflow(allow(hash, reason = "only asked what it contains"))]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = std::collections::HashSet::<u32>::new();
    Ok(())
}

fn main() {}
