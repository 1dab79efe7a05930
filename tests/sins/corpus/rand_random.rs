//! A random number
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn rand_random(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(rand::random::<u64>().to_string())
}
