//! A random UUID
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn uuid_v4(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(uuid::Uuid::new_v4().to_string())
}
