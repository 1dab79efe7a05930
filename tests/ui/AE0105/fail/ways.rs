use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::fs;
    let _ = fs::write("a", "b");
    let _ = tokio::fs::read("a");
    let _ = std::fs::File::open("a");
    let _ = std::path::Path::new("a").exists();
    let _ = std::io::stdin();
    Ok(())
}

fn main() {}
