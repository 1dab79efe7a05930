use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Plain;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, plain: Plain) -> Result<()> {
    let _ = (cx, plain);
    Ok(())
}

fn main() {
    fetch::tool();
}
