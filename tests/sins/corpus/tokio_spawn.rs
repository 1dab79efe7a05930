//! A task
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_spawn(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(tokio::spawn(async { 1 }).await?.to_string())
}
