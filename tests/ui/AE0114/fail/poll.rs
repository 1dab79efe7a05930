use aether::prelude::*;

async fn foreign() -> u32 {
    std::future::ready(1).await
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<bool> {
    let _ = &cx;
    let mut later = std::pin::pin!(foreign());
    Ok(futures_util::poll!(&mut later).is_ready())
}

fn main() {}
