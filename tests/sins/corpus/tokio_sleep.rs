//! A timer of the runtime
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_sleep(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    Ok(String::new())
}
