//! All environment variables
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn env_vars(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::env::vars().count()))
}
