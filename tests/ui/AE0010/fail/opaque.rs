use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx) -> Result<impl Copy> {
    let _ = cx;
    Ok(3)
}

fn main() {}
