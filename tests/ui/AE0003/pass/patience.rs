#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read", retry(patience = "10m"))]
async fn look(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "llm", retry(patience = "24h", max_retries = 50, max_delay = "5m"))]
async fn think(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    look(cx).await?;
    Ok(think(cx.retry(Retry::times(2))).await?)
}

fn main() {}
