//! All environment variables in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::env::vars().collect::<Vec<_>>())
}

#[workflow]
pub async fn helper_env_vars(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
