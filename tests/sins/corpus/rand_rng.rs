//! The thread's generator, by a method
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn rand_rng(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    use rand::RngExt as _;
    Ok(rand::rng().random_range(0..u64::MAX).to_string())
}
