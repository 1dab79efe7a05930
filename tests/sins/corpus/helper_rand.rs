//! A random number in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    rand::random::<u64>().to_string()
}

#[workflow]
pub async fn helper_rand(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
