//! The number of processors
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn parallelism(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::thread::available_parallelism()))
}
