//! The monotonic clock
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn instant_now(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let began = std::time::Instant::now();
    Ok(format!("{began:?}"))
}
