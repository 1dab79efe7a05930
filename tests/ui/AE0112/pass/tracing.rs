#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    tracing::info!("here");
    Ok(())
}

fn main() {}
