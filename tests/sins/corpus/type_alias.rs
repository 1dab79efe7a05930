//! The wall clock through a type alias
//! how: indirect

use aether::prelude::*;

type Clock = std::time::SystemTime;

#[workflow]
pub async fn type_alias(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", Clock::now()))
}
