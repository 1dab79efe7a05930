//! The clock of jiff
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn jiff_timestamp(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(jiff::Timestamp::now().to_string())
}
