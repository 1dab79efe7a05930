use aether::prelude::*;

#[step(effect = "tool", on_unknown = "retry")]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
