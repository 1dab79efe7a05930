use aether::prelude::*;

#[step(effect = "read", irreversible)]
async fn fetch(cx: &mut StepCx, into: &mut u8) -> Result<()> {
    let _ = (cx, into, std::time::Instant::now());
    Ok(())
}

fn main() {}
