//! A pure step that counts in a static
//! how: indirect

use aether::prelude::*;

#[workflow]
pub async fn impure_pure_step(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(kit::counted(cx, 1).await?.to_string())
}
