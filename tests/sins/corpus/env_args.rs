//! The program's arguments
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn env_args(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::env::args().collect::<Vec<_>>()))
}
