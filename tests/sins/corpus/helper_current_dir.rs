//! The working directory in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::env::current_dir())
}

#[workflow]
pub async fn helper_current_dir(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
