use aether::prelude::*;

#[step(effect = "read", timeout = "30 seconds", retry(max_retries = -1, factor = 0.5))]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "tool", key = |nobody| nobody)]
async fn send(cx: &mut StepCx, to: &str) -> Result<()> {
    let _ = (cx, to);
    Ok(())
}

#[workflow(version = 0)]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
