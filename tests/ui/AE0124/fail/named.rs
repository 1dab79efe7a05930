use aether::prelude::*;

async fn newer(_: &mut Cx) -> u64 {
    std::future::ready(2).await
}

async fn looked(_: &mut Cx, item: u64) -> u64 {
    std::future::ready(item).await
}

async fn route(_: &mut Cx) -> Result<Vec<u64>> {
    Ok(vec![std::future::ready(2).await])
}

#[workflow]
async fn child(cx: &mut Cx, item: u64) -> Result<u64> {
    Ok(item + cx.random().await)
}

#[workflow]
async fn raced(cx: &mut Cx) -> Result<u64> {
    Ok(cx.race((newer, async |cx: &mut Cx| cx.random().await)).await)
}

#[workflow]
async fn joined(cx: &mut Cx) -> Result<u64> {
    let both = (newer, |_: &mut Cx| newer_boxed());
    let (a, b) = cx.join(both).await;
    let (c, d) = Cx::join(cx, (newer, |_: &mut Cx| newer_boxed())).await;
    Ok(a + b + c + d)
}

fn newer_boxed() -> std::future::Ready<u64> {
    std::future::ready(2)
}

#[workflow]
async fn all(cx: &mut Cx, items: Vec<u64>) -> Result<u64> {
    let look = looked;
    let first: Vec<u64> = cx.each(items.clone(), look).await;
    let second: Vec<Result<u64>> = cx.budget(Budget::new().calls(9)).each(items, child).await;
    Ok(first.len() as u64 + second.len() as u64)
}

#[workflow]
async fn planned(cx: &mut Cx) -> Result<usize> {
    let other = &mut *cx;
    let plan: Vec<u64> = other.plan("route", route).await?;
    Ok(plan.len())
}

fn main() {}
