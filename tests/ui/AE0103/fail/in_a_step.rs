use aether::prelude::*;

#[step(effect = "tool")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let _ = uuid::Uuid::new_v4();
    Ok(())
}

fn main() {}
