//! The process's id in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::process::id().to_string()
}

#[workflow]
pub async fn helper_pid(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
