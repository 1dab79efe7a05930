#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<String> {
    let (a, b) = cx.join((
        async |cx: &mut Cx| fetch(cx, 1).await,
        async |cx: &mut Cx| fetch(cx, 2).await,
    ))
    .await;
    Ok(a? + &b?)
}

fn main() {}
