use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, n: u64) -> Result<u64> {
    let _ = cx;
    n + 1
}

#[workflow]
async fn unwrapped(cx: &mut Cx, n: u64) -> Result<u64> {
    cx.now().await;
    n + 1
}

#[workflow]
async fn unasked(cx: &mut Cx, n: u64) -> Result<u64> {
    let found: u64 = look(cx, n).await;
    Ok(found)
}

#[workflow]
async fn without_value(cx: &mut Cx, n: u64) -> Result<u64> {
    Ok(look(cx, n).await?);
}

#[workflow]
async fn with_step_error(cx: &mut Cx, n: u64) -> Result<u64> {
    look(cx, n).await
}

fn main() {}
