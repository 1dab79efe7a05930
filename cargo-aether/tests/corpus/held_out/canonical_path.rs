//! A path with its symbolic links resolved
//! how: fs

use std::path::{Path, PathBuf};

use aether::prelude::*;

struct Root(PathBuf);

impl TryFrom<&str> for Root {
    type Error = std::io::Error;

    fn try_from(path: &str) -> std::io::Result<Self> {
        Path::new(path).canonicalize().map(Root)
    }
}

fn look() -> String {
    Root::try_from("/proc/self").map_or_else(|error| error.to_string(), |root| root.0.display().to_string())
}

#[workflow]
pub async fn canonical_path(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
