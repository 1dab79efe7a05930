use aether::prelude::*;

#[step(effect = "read", retry(patience = "10 minutes"))]
async fn spelled_out(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", retry(patience = "0s"))]
async fn without_patience(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", retry(patience = 600))]
async fn without_a_unit(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", retry(delay = "1s"))]
async fn without_an_end(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read", retry(patiense = "10m"))]
async fn misspelt(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
