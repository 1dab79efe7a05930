use aether::prelude::*;

#[step(effect = "pure", approval = "required")]
async fn add(a: u32) -> Result<u32> {
    Ok(a)
}

#[step(effect = "read", compensate = forget)]
async fn look(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
