//! The clock of the crate time
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn time_offset(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", time::OffsetDateTime::now_utc()))
}
