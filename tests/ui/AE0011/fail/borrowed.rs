use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: &str) -> Result<&str> {
    let _ = cx;
    Ok(id)
}

fn main() {}
