//! An async function that is no step
//! how: direct

use aether::prelude::*;

async fn stamp() -> String {
    format!("{:?}", std::time::SystemTime::now())
}

#[workflow]
pub async fn plain_async_fn(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(stamp().await)
}
