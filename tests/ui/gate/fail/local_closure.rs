use aether::prelude::*;

#[step(effect = "tool")]
async fn pay(_cx: &mut StepCx, cents: u32) -> Result<u32> {
    Ok(cents)
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    let charge = async |cx: &mut Cx, cents: u32| pay(cx, cents).await;
    Ok(charge(cx, 1).await?)
}

fn main() {}
