//! Where a program lies on the search path
//! how: env

use std::env;
use std::path::PathBuf;

use aether::prelude::*;

fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[workflow]
pub async fn program_on_the_path(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", which("git")))
}
