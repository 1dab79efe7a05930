use aether::prelude::*;

struct Plain;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, plain: Plain) -> Result<()> {
    let _ = (cx, plain);
    Ok(())
}

fn main() {}
