use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, tokio::spawn(async {}));
    Ok(())
}

fn main() {}
