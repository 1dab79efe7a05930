use aether::prelude::*;

#[step(effect: "read")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
