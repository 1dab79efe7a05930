//! Entropy of the operating system
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn getrandom_u64(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", getrandom::u64()))
}
