//! Giving way to other tasks
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_yield(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    tokio::task::yield_now().await;
    Ok(String::new())
}
