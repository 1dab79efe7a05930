use aether::prelude::*;

#[step(effect = "read")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    let _ = std::time::SystemTime::now();
    Ok(())
}

fn main() {}
