//! A blocking task
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn spawn_blocking(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    drop(tokio::task::spawn_blocking(|| 1));
    Ok(String::new())
}
