use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::env::var as setting;
    let _ = setting("HOME");
    Ok(())
}

fn main() {}
