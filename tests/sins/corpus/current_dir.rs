//! The working directory
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn current_dir(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::env::current_dir()))
}
