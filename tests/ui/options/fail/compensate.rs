use aether::prelude::*;

#[step(effect = "tool", compensate = refund)]
async fn pay(cx: &mut StepCx, to: &str, cents: u64) -> Result<String> {
    let _ = (cx, cents);
    Ok(to.to_owned())
}

#[step(effect = "tool")]
async fn refund(cx: &mut StepCx, receipt: Option<&str>) -> Result<()> {
    let _ = (cx, receipt);
    Ok(())
}

#[step(effect = "tool", compensate = close)]
async fn open(cx: &mut StepCx, door: u32) -> Result<()> {
    let _ = (cx, door);
    Ok(())
}

async fn close(door: u32) {
    let _ = door;
}

fn main() {}
