//! Tokio's clock in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", tokio::time::Instant::now())
}

#[workflow]
pub async fn helper_tokio_clock(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
