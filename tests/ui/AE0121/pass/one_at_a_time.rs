#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: &str) -> Result<String> {
    let _ = cx;
    Ok(id.to_owned())
}

fn name_of(cx: &Cx) -> String {
    cx.run_id().to_string()
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<String> {
    let asked = cx.now();
    let asked = asked.await;
    let found = name_of(cx);
    let found = fetch(cx, &found);
    let found = found.await?;
    let id = cx.run_id().to_string();
    let later = fetch(cx, &id);
    let asked = asked.to_string();
    let later = later.await? + &asked;
    cx.uuid().await;
    let (a, b) = cx
        .join((async |cx: &mut Cx| cx.random().await, async |cx: &mut Cx| fetch(cx, &id).await))
        .await;
    Ok(format!("{found} {later} {a} {}", b?))
}

fn main() {}
