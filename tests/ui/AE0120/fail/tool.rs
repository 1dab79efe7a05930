use aether::prelude::*;

#[step(effect = "tool")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let _ = reqwest::Client::new();
    Ok(())
}

fn main() {}
