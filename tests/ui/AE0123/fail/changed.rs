use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

struct Tally {
    asked: u32,
}

fn note(tally: &mut Tally) {
    tally.asked += 1;
}

#[workflow]
async fn assigned(cx: &mut Cx) -> Result<u32> {
    let mut asked = 0;
    cx.race((
        async |cx: &mut Cx| {
            asked += 1;
            look(cx, "a").await
        },
        async |cx: &mut Cx| look(cx, "b").await,
    ))
    .await?;
    Ok(asked)
}

#[workflow]
async fn called(cx: &mut Cx) -> Result<usize> {
    let mut seen = Vec::new();
    cx.race((
        async |cx: &mut Cx| {
            let found = look(cx, "a").await;
            seen.push("a");
            found
        },
        async |cx: &mut Cx| look(cx, "b").await,
    ))
    .await?;
    Ok(seen.len())
}

#[workflow]
async fn lent(cx: &mut Cx) -> Result<u32> {
    let mut tally = Tally { asked: 0 };
    cx.race((
        async |cx: &mut Cx| {
            note(&mut tally);
            look(cx, "a").await
        },
        async |cx: &mut Cx| look(cx, "b").await,
    ))
    .await?;
    Ok(tally.asked)
}

#[workflow]
async fn shared(cx: &mut Cx, count: u32) -> Result<u32> {
    let asked = std::sync::atomic::AtomicU32::new(count);
    cx.race((
        async |cx: &mut Cx| {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            look(cx, "a").await
        },
        async |cx: &mut Cx| look(cx, "b").await,
    ))
    .await?;
    Ok(asked.into_inner())
}

fn main() {}
