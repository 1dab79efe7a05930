use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx) -> u32 {
    let _ = cx;
    3
}

fn main() {}
