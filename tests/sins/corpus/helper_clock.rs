//! The wall clock in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", std::time::SystemTime::now())
}

#[workflow]
pub async fn helper_clock(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
