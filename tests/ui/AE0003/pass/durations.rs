#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read", retry(max_retries = 0, delay = "1ms", factor = 1, max_delay = "2h"), timeout = "5m")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[workflow(version = 7, name = "flow-7.a")]
async fn flow(cx: &mut Cx) -> Result<()> {
    Ok(act(cx).await?)
}

fn main() {}
