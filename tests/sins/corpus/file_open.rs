//! A file, opened
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn file_open(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::fs::File::open("/proc/uptime")))
}
