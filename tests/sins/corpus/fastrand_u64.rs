//! A random number of fastrand
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn fastrand_u64(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(fastrand::u64(..).to_string())
}
