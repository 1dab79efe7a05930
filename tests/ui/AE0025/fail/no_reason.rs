use aether::prelude::*;

#[step(effect = "read", allow(clock))]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", allow(clocks, reason = "log"))]
async fn ask(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
