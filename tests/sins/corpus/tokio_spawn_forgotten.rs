//! A task that nobody awaits
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_spawn_forgotten(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    drop(tokio::spawn(async { 1 }));
    Ok(String::new())
}
