//! A static that is computed at its first use
//! how: direct

use aether::prelude::*;

static BEGUN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);

#[workflow]
pub async fn lazy_lock(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", *BEGUN))
}
