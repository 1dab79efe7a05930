use aether::prelude::*;

#[step(effect = "pure")]
async fn add(cx: &mut StepCx, a: u32) -> Result<u32> {
    let _ = cx;
    Ok(a)
}

fn main() {}
