use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx) {
    let _ = cx;
}

fn main() {}
