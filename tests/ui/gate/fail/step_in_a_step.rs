use aether::prelude::*;

#[step(effect = "read")]
async fn search(cx: &mut StepCx, query: &str) -> Result<String> {
    let _ = cx;
    Ok(query.to_owned())
}

#[step(effect = "tool")]
async fn report(cx: &mut StepCx) -> Result<String> {
    Ok(search(cx, "a").await?)
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<String> {
    Ok(report(cx).await?)
}

#[step(effect = "tool")]
async fn start(cx: &mut StepCx) -> Result<String> {
    flow(cx).await
}

fn main() {}
