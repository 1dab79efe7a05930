use aether::prelude::*;

#[step(effect = "tool", retry(max_retries = 3), timeout = "soon")]
async fn send(cx: &mut StepCx, to: &str) -> Result<String> {
    let _ = cx;
    Ok(format!("{to} {}", uuid::Uuid::new_v4()))
}

#[workflow]
async fn caller(cx: &mut Cx) -> Result<String> {
    Ok(send(cx, "a").await?)
}

fn main() {
    let _ = send::tool();
}
