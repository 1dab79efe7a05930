//! A timeout of the runtime
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_timeout(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let drawn = tokio::time::timeout(std::time::Duration::from_millis(1), cx.random()).await;
    Ok(format!("{drawn:?}"))
}
