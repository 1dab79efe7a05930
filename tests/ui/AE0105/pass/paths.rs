#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let path = std::path::Path::new("a").join("b");
    let _ = (path.extension(), path.file_name(), path.is_absolute(), include_str!("paths.rs").len());
    Ok(())
}

fn main() {}
