//! A random UUID in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[workflow]
pub async fn helper_uuid(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
