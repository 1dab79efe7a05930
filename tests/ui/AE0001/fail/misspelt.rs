use aether::prelude::*;

#[step(effect = "read", retrry(max_retries = 3))]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
