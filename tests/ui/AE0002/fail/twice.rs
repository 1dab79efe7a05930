use aether::prelude::*;

#[step(effect = "read", effect = "tool")]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
