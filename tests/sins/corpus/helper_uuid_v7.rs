//! A UUID from the clock in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    uuid::Uuid::now_v7().to_string()
}

#[workflow]
pub async fn helper_uuid_v7(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
