//! The clock of chrono, UTC
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn chrono_utc(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(chrono::Utc::now().to_rfc3339())
}
