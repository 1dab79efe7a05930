use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

#[workflow]
async fn items(cx: &mut Cx) -> Result<()> {
    cx.each(0..3, async |_branch: &mut Cx, id| fetch(cx, id).await).limit(2).await;
    Ok(())
}

#[workflow]
async fn blocks(cx: &mut Cx) -> Result<()> {
    cx.race((async { cx.now().await }, async { cx.now().await })).await;
    Ok(())
}

fn main() {}
