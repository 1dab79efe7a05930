#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool", idempotent, retry(max_retries = 3), timeout = "30s")]
async fn send(cx: &mut StepCx, to: &str) -> Result<String> {
    Ok(format!("{to} {}", cx.uuid()))
}

#[workflow]
async fn caller(cx: &mut Cx) -> Result<String> {
    Ok(send(cx, "a").await?)
}

fn main() {
    let _ = send::tool();
}
