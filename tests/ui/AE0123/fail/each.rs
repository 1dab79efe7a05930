use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

#[workflow]
async fn gathers(cx: &mut Cx, places: Vec<String>) -> Result<usize> {
    let mut found = Vec::new();
    let mut sum = 0;
    cx.each(places, async |cx: &mut Cx, place: String| {
        let number = look(cx, &place).await;
        sum += 1;
        found.push(number);
    })
    .limit(4)
    .await;
    Ok(found.len() + sum)
}

#[workflow]
async fn joins(cx: &mut Cx) -> Result<usize> {
    let mut found = Vec::new();
    cx.join((
        async |cx: &mut Cx| found.push(look(cx, "a").await),
        async |cx: &mut Cx| found.push(look(cx, "b").await),
    ))
    .await;
    Ok(found.len())
}

fn main() {}
