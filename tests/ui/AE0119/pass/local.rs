#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let depth = std::cell::Cell::new(0);
    depth.set(depth.get() + 1);
    let _ = depth.get();
    Ok(())
}

fn main() {}
