//! The program's arguments in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::env::args().collect::<Vec<_>>())
}

#[workflow]
pub async fn helper_env_args(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
