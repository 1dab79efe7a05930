//! A file, read
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn fs_read(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(std::fs::read_to_string("/proc/uptime").unwrap_or_default())
}
