#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = (env!("CARGO_PKG_NAME"), option_env!("NOTHING"), std::env::consts::OS, cfg!(debug_assertions));
    Ok(())
}

fn main() {}
