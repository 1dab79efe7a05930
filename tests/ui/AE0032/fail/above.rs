use aether::prelude::*;

#[step(effect = "pure")]
#[tracing::instrument]
async fn doubled(n: u64) -> Result<u64> {
    Ok(n * 2)
}

#[tracing::instrument]
#[step(effect = "pure")]
async fn tripled(n: u64) -> Result<u64> {
    Ok(n * 3)
}

#[tracing::instrument(skip_all)]
#[workflow]
async fn counted(cx: &mut Cx, n: u64) -> Result<u64> {
    let twice = doubled(cx, n).await?;
    Ok(tripled(cx, twice).await?)
}

fn main() {}
