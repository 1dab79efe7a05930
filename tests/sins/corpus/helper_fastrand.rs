//! A random number of fastrand in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    fastrand::u64(..).to_string()
}

#[workflow]
pub async fn helper_fastrand(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
