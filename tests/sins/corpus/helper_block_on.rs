//! Blocking on a future in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    format!("{:?}", futures::executor::block_on(async { std::time::SystemTime::now() }))
}

#[workflow]
pub async fn helper_block_on(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
