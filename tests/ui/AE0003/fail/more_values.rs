use aether::prelude::*;

#[workflow(version = 0, name = "no spaces", crate = 3)]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[workflow(macros)]
async fn other(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
