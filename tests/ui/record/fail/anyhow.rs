use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(_cx: &mut StepCx, city: String) -> anyhow::Result<u32> {
    Ok(city.parse()?)
}

#[workflow]
async fn count(cx: &mut Cx, city: String) -> Result<u32, anyhow::Error> {
    Ok(fetch(cx, city).await?)
}

fn main() {}
