//! The wall clock, by its path
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn system_time_now(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::time::SystemTime::now()))
}
