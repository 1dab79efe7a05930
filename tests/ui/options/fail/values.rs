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

#[step(effect = "tool", irreversible, scope = "world")]
async fn ship(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool", changes = [], confirm = "maybe")]
async fn write(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool", changes = ["file", ""])]
async fn write_more(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool", heartbeat = "0s")]
async fn crawl(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", retry(max_retries = 2, jitter = 1.5))]
async fn retried(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
