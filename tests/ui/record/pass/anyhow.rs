#![deny(warnings)]

use aether::prelude::*;
use anyhow::Context as _;

fn read(city: &str) -> anyhow::Result<u32> {
    city.parse::<u32>().context("read the number")
}

#[step(effect = "read")]
async fn fetch(_cx: &mut StepCx, city: String) -> Result<u32> {
    let first = read(&city).with_context(|| format!("look at {city}"))?;
    let second = city.parse::<u32>().in_context("once more")?;
    Ok(first + second)
}

#[workflow]
async fn count(cx: &mut Cx, city: String) -> Result<u32> {
    Ok(fetch(cx, city).await.context("count")?)
}

fn main() {}
