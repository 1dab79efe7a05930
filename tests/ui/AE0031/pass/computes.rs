#![deny(warnings)]
use aether::prelude::*;

#[step(effect = "read")]
async fn rate(_cx: &mut StepCx) -> Result<f64> {
    Ok(std::future::ready(1.08).await)
}

#[step(effect = "pure")]
async fn in_euro(dollars: f64, rate: f64) -> Result<f64> {
    Ok(dollars / rate)
}

#[workflow]
async fn paid(cx: &mut Cx, dollars: f64) -> Result<f64> {
    let rate = rate(cx).await?;
    Ok(in_euro(cx, dollars, rate).await?)
}

fn main() {}
