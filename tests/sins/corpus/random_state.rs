//! A hash with random keys
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn random_state(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    use std::hash::BuildHasher as _;
    Ok(std::hash::RandomState::new().hash_one(number).to_string())
}
