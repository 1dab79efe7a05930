//! The thread's generator after a step has seeded it
//! how: indirect

use aether::prelude::*;

fn draw() -> u64 {
    rand::random()
}

#[workflow]
pub async fn seeded_generator(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    kit::seed(cx).await?;
    Ok(draw().to_string())
}
