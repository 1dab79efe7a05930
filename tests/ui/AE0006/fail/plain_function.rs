use aether::prelude::*;

#[step(effect = "read")]
fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
