#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

#[workflow]
async fn borrowed(cx: &mut Cx, places: Vec<String>) -> Result<u64> {
    let mut sum = 0;
    let (plan, tried) = cx
        .plan("route", async |cx: &mut Cx| {
            let (mut plan, mut tried) = (Vec::new(), 0);
            for place in &places {
                tried += 1;
                plan.push(look(cx, place).await?);
            }
            Ok::<_, Failure>((plan, tried))
        })
        .await?;
    sum += plan.iter().sum::<u64>() + tried;
    Ok(sum)
}

#[workflow]
async fn moved(cx: &mut Cx, mut places: Vec<String>) -> Result<usize> {
    let plan = cx
        .plan("route", async move |cx: &mut Cx| {
            look(cx, "a").await?;
            places.push("a".to_owned());
            Ok::<_, Failure>(places)
        })
        .await?;
    Ok(plan.len())
}

fn main() {}
