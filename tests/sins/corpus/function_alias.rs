//! A random number under another name
//! how: indirect

use aether::prelude::*;

use rand::random as draw;

#[workflow]
pub async fn function_alias(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(draw::<u64>().to_string())
}
