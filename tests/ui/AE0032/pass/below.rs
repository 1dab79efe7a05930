#![deny(warnings)]
use aether::prelude::*;

#[step(effect = "pure")]
#[tracing::instrument]
async fn doubled(n: u64) -> Result<u64> {
    Ok(n * 2)
}

#[step(effect = "read")]
#[tracing::instrument]
async fn looked(cx: &mut StepCx, n: u64) -> Result<u64> {
    Ok(n + u64::from(cx.attempt()))
}

#[tracing::instrument(skip_all, err)]
#[step(effect = "read")]
async fn asked(cx: &mut StepCx, n: u64) -> Result<u64> {
    Ok(n + u64::from(cx.attempt()))
}

#[workflow]
#[tracing::instrument(skip_all, fields(n))]
async fn counted(cx: &mut Cx, n: u64) -> Result<u64> {
    let twice = doubled(cx, n).await?;
    Ok(looked(cx, twice).await? + asked(cx, twice).await?)
}

fn main() {}
