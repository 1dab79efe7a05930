use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    cx.join((
        async |cx: &mut Cx| cx.random().await,
        async |_cx: &mut Cx| std::future::ready(3).await,
    ))
    .await;
    Ok(())
}

fn main() {}
