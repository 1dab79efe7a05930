//! A static in the body
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn static_in_body(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    Ok(CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string())
}
