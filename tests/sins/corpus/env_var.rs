//! An environment variable
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn env_var(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(std::env::var("PATH").unwrap_or_default())
}
