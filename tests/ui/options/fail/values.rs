use aether::prelude::*;

#[step(effect = "tool", approval = "always", compensate = "refund")]
async fn pay(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool", approval = |amount| amount > 10)]
async fn pay_in(cx: &mut StepCx, cents: u64) -> Result<()> {
    let _ = (cx, cents);
    Ok(())
}

#[step(effect = "tool", approval = |cents| cents)]
async fn pay_out(cx: &mut StepCx, cents: u64) -> Result<()> {
    let _ = (cx, cents);
    Ok(())
}

fn main() {}
