use aether::prelude::*;

#[step]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

// The callers of a step with a mistake compile.
#[workflow]
async fn flow(cx: &mut Cx) -> Result<String> {
    Ok(fetch(cx, 1).await?)
}

fn main() {}
