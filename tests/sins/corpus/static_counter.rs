//! A static counter
//! how: direct

use aether::prelude::*;

static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[workflow]
pub async fn static_counter(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string())
}
