//! A relative path that is made absolute
//! how: env

use std::path::Path;

use aether::prelude::*;

fn output(name: &str) -> String {
    let path = std::path::absolute(Path::new("out").join(name)).unwrap_or_default();
    path.display().to_string()
}

#[workflow]
pub async fn absolute_path(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(output("report.txt"))
}
