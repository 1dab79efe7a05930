#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, opened: std::time::SystemTime) -> Result<()> {
    let _ = &cx;
    let _ = opened.elapsed();
    Ok(())
}

fn main() {}
