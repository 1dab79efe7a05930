//! The wall clock under another name
//! how: indirect

use aether::prelude::*;

use std::time::SystemTime as Clock;

#[workflow]
pub async fn import_alias(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", Clock::now()))
}
