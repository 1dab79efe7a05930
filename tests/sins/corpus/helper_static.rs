//! A static counter in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string()
}

#[workflow]
pub async fn helper_static(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
