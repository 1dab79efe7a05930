//! The first entries of a directory, in the order of the file system
//! how: fs

use std::fs::DirEntry;

use aether::prelude::*;

fn names(folder: &str) -> std::io::Result<Vec<String>> {
    std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry: DirEntry| entry.file_name().to_string_lossy().into_owned()))
        .take(5)
        .collect()
}

#[workflow]
pub async fn directory_order(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(names("/tmp").unwrap_or_default().join(","))
}
