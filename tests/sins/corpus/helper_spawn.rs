//! A task in a helper that counts on
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    static DONE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    drop(tokio::spawn(async { DONE.fetch_add(1, std::sync::atomic::Ordering::Relaxed) }));
    DONE.load(std::sync::atomic::Ordering::Relaxed).to_string()
}

#[workflow]
pub async fn helper_spawn(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
