#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, path: std::path::PathBuf) -> Result<()> {
    let _ = &cx;
    let _ = path.exists();
    Ok(())
}

fn main() {}
