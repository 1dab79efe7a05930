//! Whether a file exists, by a method
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn path_exists(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(std::path::Path::new("/tmp/flag").exists().to_string())
}
