//! An environment variable in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::env::var("PATH").unwrap_or_default()
}

#[workflow]
pub async fn helper_env(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
