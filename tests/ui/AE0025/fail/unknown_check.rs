use aether::prelude::*;

#[workflow(allow(clok, reason = "?"), allow(reason = "nothing"), allow)]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
