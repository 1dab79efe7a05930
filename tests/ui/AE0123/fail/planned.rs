use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

#[workflow]
async fn counted(cx: &mut Cx) -> Result<u32> {
    let mut asked = 0;
    let plan: Vec<u64> = cx
        .plan("route", async |cx: &mut Cx| {
            asked += 1;
            Ok::<_, Failure>(vec![look(cx, "a").await?])
        })
        .await?;
    Ok(asked + plan.len() as u32)
}

#[workflow]
async fn shared(cx: &mut Cx, count: u32) -> Result<u32> {
    let asked = std::sync::atomic::AtomicU32::new(count);
    cx.plan("route", async |cx: &mut Cx| {
        asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        look(cx, "a").await
    })
    .await?;
    Ok(asked.into_inner())
}

fn main() {}
