//! Entropy in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", getrandom::u64())
}

#[workflow]
pub async fn helper_getrandom(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
