#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

#[workflow]
async fn gathers(cx: &mut Cx, places: Vec<String>) -> Result<u64> {
    let mut sum = 0;
    let found = cx.each(places, async |cx: &mut Cx, place: String| look(cx, &place).await).limit(4).await;
    for number in found {
        sum += number?;
    }
    Ok(sum)
}

#[workflow]
async fn each_changes_its_own(cx: &mut Cx) -> Result<usize> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    cx.join((
        async |cx: &mut Cx| first.push(look(cx, "a").await),
        async |cx: &mut Cx| second.push(look(cx, "b").await),
    ))
    .await;
    Ok(first.len() + second.len())
}

#[workflow]
async fn owned(cx: &mut Cx, places: Vec<String>) -> Result<usize> {
    let mut seen = Vec::new();
    let seen = cx
        .each(places, async move |cx: &mut Cx, place: String| {
            seen.push(look(cx, &place).await);
            seen.len()
        })
        .await;
    Ok(seen.len())
}

fn main() {}
