//! The program's own path, taken as a version
//! how: env

use aether::prelude::*;

fn look() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|path| path.file_stem().map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_default()
}

#[workflow]
pub async fn current_exe_name(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
