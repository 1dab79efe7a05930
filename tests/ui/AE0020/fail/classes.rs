use aether::prelude::*;

#[step(effect = "external", retry(max_retries = 2))]
async fn external(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "http", retry(max_retries = 1), irreversible)]
async fn http(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
