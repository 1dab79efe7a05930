//! The directory for temporary files
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn temp_dir(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::env::temp_dir()))
}
