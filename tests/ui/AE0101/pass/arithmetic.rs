#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let opened = cx.now().await;
    let later = opened + std::time::Duration::from_secs(60);
    let _ = (later > opened, std::time::UNIX_EPOCH, jiff::Timestamp::UNIX_EPOCH);
    Ok(())
}

fn main() {}
