//! Tokio's clock
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_instant(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let now = tokio::time::Instant::now();
    Ok(format!("{now:?}"))
}
