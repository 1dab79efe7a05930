//! The name of a temporary file
//! how: fs

use aether::prelude::*;

fn scratch() -> std::io::Result<String> {
    let file = tempfile::Builder::new().prefix("report-").suffix(".txt").tempfile()?;
    Ok(file.path().display().to_string())
}

#[workflow]
pub async fn temporary_file_name(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(scratch().unwrap_or_default())
}
