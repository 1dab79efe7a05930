#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let shared = std::sync::Mutex::new(3);
    let _ = shared;
    Ok(())
}

fn main() {}
