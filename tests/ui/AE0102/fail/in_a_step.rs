use aether::prelude::*;

#[step(effect = "tool")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let _: u64 = rand::random();
    Ok(())
}

fn main() {}
