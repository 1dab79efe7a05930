//! A hash with random keys in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1).to_string()
}

#[workflow]
pub async fn helper_random_state(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
