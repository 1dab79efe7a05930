//! The process's id
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn process_id(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(std::process::id().to_string())
}
