#![deny(warnings)]
use aether::prelude::*;

#[step(effect = "read")]
async fn look(_cx: &mut StepCx, item: u64) -> Result<u64> {
    Ok(item)
}

#[workflow]
async fn child(cx: &mut Cx, item: u64) -> Result<u64> {
    Ok(item + cx.random().await)
}

#[workflow]
async fn raced(cx: &mut Cx) -> Result<u64> {
    let first = async |cx: &mut Cx| look(cx, 1).await;
    let other = &mut *cx;
    Ok(other.race((first, async |cx: &mut Cx| look(cx, 2).await)).await?)
}

#[workflow]
async fn joined(cx: &mut Cx, name: String) -> Result<u64> {
    let branch = async |cx: &mut Cx| look(cx, 1).await;
    let (a, b) = cx.join((branch.clone(), branch)).await;
    let both = (
        {
            let name = name.clone();
            async move |cx: &mut Cx| look(cx, name.len() as u64).await
        },
        |_: &mut Cx| async move { 3_u64 },
    );
    let (c, d) = cx.join(both).await;
    Ok(a? + b? + c? + d)
}

#[workflow]
async fn all(cx: &mut Cx, items: Vec<u64>) -> Result<u64> {
    let body = async |cx: &mut Cx, item: u64| child(cx, item).await;
    let found = cx.each(items.clone(), &body).limit(2).await;
    let more = cx.budget(Budget::new().calls(9)).each(items, body).await;
    Ok((found.len() + more.len()) as u64)
}

#[workflow]
async fn planned(cx: &mut Cx) -> Result<usize> {
    let planner = async |cx: &mut Cx| Ok::<_, Failure>(vec![cx.random().await]);
    let plan = cx.plan("first", planner).await?;
    let planner = async |_: &mut Cx| Ok::<_, Failure>(vec![plan.len()]);
    Ok(cx.plan("second", planner).await?.len())
}

fn main() {}
