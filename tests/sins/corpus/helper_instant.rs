//! The monotonic clock in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::time::Instant::now())
}

#[workflow]
pub async fn helper_instant(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
