//! A backtrace
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn backtrace_capture(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(std::backtrace::Backtrace::force_capture().to_string())
}
