use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, std::process::Command::new("ls"));
    Ok(())
}

fn main() {}
