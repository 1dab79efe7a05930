//! A file in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::fs::read_to_string("/proc/uptime").unwrap_or_default()
}

#[workflow]
pub async fn helper_file(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
