use aether::prelude::*;

#[step(effect = "tool", on_unknown = "probe")]
async fn send(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

async fn sent(cx: &mut StepCx) -> Result<Probe<()>> {
    let _ = cx;
    Ok(Probe::Unknown)
}

#[step(effect = "tool", on_unknown = "ask", probe = sent)]
async fn pay(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
