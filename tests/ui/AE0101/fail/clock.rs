use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx.now().await, std::time::SystemTime::now());
    Ok(())
}

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = (cx, std::time::Instant::now());
    Ok(())
}

fn main() {}
