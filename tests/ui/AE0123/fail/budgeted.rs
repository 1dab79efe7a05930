use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

#[workflow]
async fn counted(cx: &mut Cx, places: Vec<String>) -> Result<u32> {
    let mut asked = 0;
    let found = cx
        .budget(Budget::new().calls(3))
        .each(places, async |cx: &mut Cx, place| {
            asked += 1;
            look(cx, &place).await
        })
        .await;
    Ok(asked + found.len() as u32)
}

fn main() {}
