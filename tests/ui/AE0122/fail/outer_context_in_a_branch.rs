use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    cx.join((async |_: &mut Cx| cx.random().await, async |_: &mut Cx| 3)).await;
    Ok(())
}

fn main() {}
