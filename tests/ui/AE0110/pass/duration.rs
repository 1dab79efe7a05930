#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    cx.sleep(tokio::time::Duration::from_secs(1)).await;
    Ok(())
}

fn main() {}
