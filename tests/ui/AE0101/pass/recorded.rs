#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let opened = cx.now().await;
    let _ = opened + std::time::Duration::from_secs(3);
    Ok(())
}

fn main() {}
