//! The clock and time zone of jiff
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn jiff_zoned(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(jiff::Zoned::now().to_string())
}
