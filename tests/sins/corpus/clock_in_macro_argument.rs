//! The clock in an argument of a macro
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn clock_in_macro_argument(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", Some(std::time::Instant::now())))
}
