#![deny(warnings)]

use aether::prelude::*;
use eyre::{ContextCompat as _, WrapErr as _};

fn read(city: &str) -> eyre::Result<u32> {
    city.parse::<u32>().wrap_err("read the number")
}

#[step(effect = "read")]
async fn fetch(_cx: &mut StepCx, city: String) -> Result<u32> {
    let first = read(&city).wrap_err_with(|| format!("look at {city}"))?;
    let digit = city.chars().next().context("an empty name")?;
    let second = digit.to_string().parse::<u32>().in_context("the first digit")?;
    Ok(first + second)
}

#[workflow]
async fn count(cx: &mut Cx, city: String) -> Result<u32> {
    Ok(fetch(cx, city).await?)
}

fn main() {}
