//! Blocking on a future
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn block_on(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", futures::executor::block_on(async { std::time::Instant::now() })))
}
