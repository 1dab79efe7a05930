#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<String> {
    assert_eq!(fetch(cx, 1).await?, "1");
    let texts = vec![fetch(cx, 2).await?, fetch(cx, 3).await?];
    let known = matches!(fetch(cx, 4).await, Ok(text) if text.len() == 1);
    Ok(format!("{texts:?} {known} {} {last}", fetch(cx, 5).await?, last = fetch(cx, 6).await?))
}

fn main() {}
