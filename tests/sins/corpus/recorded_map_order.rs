//! The order of a hash map that a step returned
//! how: indirect

use aether::prelude::*;

#[workflow]
pub async fn recorded_map_order(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let counts = kit::count(cx, 64).await?;
    Ok(counts.keys().map(|key| format!("{key} ")).collect())
}
