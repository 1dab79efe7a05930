//! A file, through tokio
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn tokio_fs(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(tokio::fs::read_to_string("/proc/uptime").await?)
}
