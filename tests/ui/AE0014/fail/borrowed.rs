use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, into: &mut Vec<u8>, names: &[&str], fixed: &'static str) -> Result<()> {
    let _ = (cx, into, names, fixed);
    Ok(())
}

fn main() {}
