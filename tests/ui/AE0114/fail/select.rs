use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    tokio::join!(cx.now());
    Ok(())
}

fn main() {}
