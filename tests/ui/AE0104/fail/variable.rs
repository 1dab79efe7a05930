use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, std::env::var("HOME"));
    Ok(())
}

fn main() {}
