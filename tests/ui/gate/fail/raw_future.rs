use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    std::future::ready(3).await;
    Ok(())
}

fn main() {}
