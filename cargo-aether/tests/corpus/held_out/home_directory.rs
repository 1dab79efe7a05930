//! The cache folder in the home directory, or for temporary files
//! how: env

use aether::prelude::*;

fn cache() -> std::path::PathBuf {
    std::env::home_dir().map_or_else(std::env::temp_dir, |home| home.join(".cache")).join("shop")
}

#[workflow]
pub async fn home_directory(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(cache().display().to_string())
}
