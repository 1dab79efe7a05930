//! A value that is set once in a process
//! how: direct

use aether::prelude::*;

static FIRST: std::sync::OnceLock<u64> = std::sync::OnceLock::new();

#[workflow]
pub async fn once_lock(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    Ok(FIRST.get_or_init(|| number).to_string())
}
