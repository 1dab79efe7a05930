//! A UUID from the clock
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn uuid_v7(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(uuid::Uuid::now_v7().to_string())
}
