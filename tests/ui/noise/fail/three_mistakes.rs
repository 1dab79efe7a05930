use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

#[workflow(versoin = 2)]
async fn flow(cx: &mut Cx, id: u32) -> Result<String> {
    let begun = std::time::SystemTime::now();
    let name = std::env::var("NAME")?;
    let text = fetch(cx, id).await?;
    Ok(format!("{begun:?} {name} {text}"))
}

#[workflow]
async fn caller(cx: &mut Cx) -> Result<String> {
    flow(cx, 3).await
}

fn main() {
    let _ = <flow as aether::definition::Workflow>::DEF;
}
