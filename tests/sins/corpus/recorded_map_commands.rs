//! One step for each entry of a hash map that a step returned
//! how: indirect

use aether::prelude::*;

#[workflow]
pub async fn recorded_map_commands(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let counts = kit::count(cx, 16).await?;
    let mut sum = 0;
    for key in counts.keys() {
        sum += kit::weigh(cx, key).await?;
    }
    Ok(sum.to_string())
}
