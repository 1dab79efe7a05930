use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, (a, b): (u32, u32), _: u8) -> Result<u32> {
    let _ = cx;
    Ok(a + b)
}

fn main() {}
