//! The id of the process that started this one
//! how: process

use aether::prelude::*;

fn started_by() -> u32 {
    std::os::unix::process::parent_id()
}

#[workflow]
pub async fn parent_process(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(started_by().to_string())
}
