//! The wall clock in a constant
//! how: indirect

use aether::prelude::*;

const NOW: fn() -> std::time::SystemTime = std::time::SystemTime::now;

#[workflow]
pub async fn function_constant(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", NOW()))
}
