//! A step that is called by chance
//! how: indirect

use aether::prelude::*;

fn chance() -> bool {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1) % 2 == 0
}

fn token() -> String {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 2).to_string()
}

#[workflow]
pub async fn command_by_chance(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    if chance() {
        kit::weigh(cx, "heads").await?;
    }
    kit::weigh(cx, &token()).await?;
    Ok(String::new())
}
