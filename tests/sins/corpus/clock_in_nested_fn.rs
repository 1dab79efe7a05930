//! The clock in a function inside the body
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn clock_in_nested_fn(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    fn stamp() -> String {
        format!("{:?}", std::time::SystemTime::now())
    }
    Ok(stamp())
}
