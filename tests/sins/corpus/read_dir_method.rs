//! A directory, by a method of a path
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn read_dir_method(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", std::path::Path::new("/proc/self/fd").read_dir().map(|dir| dir.count())))
}
