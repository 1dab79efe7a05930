//! Paths that are computed without a look at the disk
//! how: clean

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use aether::prelude::*;

fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !parts.pop() {
                    parts.push("..");
                }
            }
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

fn target(source: &Path, root: &Path) -> Option<PathBuf> {
    let inner = source.strip_prefix(root).ok()?;
    let name = inner.file_stem().and_then(OsStr::to_str)?.replace(' ', "-");
    Some(Path::new("out").join(inner.with_file_name(name)).with_extension("html"))
}

#[workflow]
pub async fn path_normalising(cx: &mut Cx, _input: u64) -> Result<String> {
    let chapter = cx.random().await % 30;
    let source = PathBuf::from(format!("/book/./drafts/../src/part {chapter}.md"));
    let source = normal(&source);
    let target = target(&source, Path::new("/book/src"));
    Ok(format!("{} {target:?} {}", source.display(), source.starts_with("/book") && source.is_absolute()))
}
