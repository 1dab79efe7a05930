use aether::prelude::*;

#[step(effect = "tool", retry(patience = "10m"))]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
