//! Whether a file exists, in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    std::path::Path::new("/tmp/flag").exists().to_string()
}

#[workflow]
pub async fn helper_exists(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
