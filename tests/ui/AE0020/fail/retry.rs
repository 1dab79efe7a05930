use aether::prelude::*;

#[step(effect = "tool", retry(max_retries = 3))]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
