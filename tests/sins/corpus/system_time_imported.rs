//! The wall clock, imported
//! how: direct

use aether::prelude::*;

use std::time::SystemTime;

#[workflow]
pub async fn system_time_imported(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let now = SystemTime::now();
    Ok(format!("{now:?}"))
}
