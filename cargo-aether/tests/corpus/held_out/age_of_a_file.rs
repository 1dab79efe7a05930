//! The time at which a file was last changed
//! how: fs

use std::path::Path;
use std::time::SystemTime;

use aether::prelude::*;

fn changed(path: impl AsRef<Path>) -> Option<SystemTime> {
    path.as_ref().metadata().and_then(|about| about.modified()).ok()
}

#[workflow]
pub async fn age_of_a_file(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", changed("/etc/hosts")))
}
