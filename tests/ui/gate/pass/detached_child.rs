#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn report(cx: &mut Cx, n: u64) -> Result<u64> {
    cx.now().await;
    Ok(n)
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u64> {
    cx.start_child::<report>(1).id("one").detached().await?;
    let two = cx.start_child::<report>(2).detached().await?;
    let _ = cx.child::<report>(3).detached().await?;
    let id = two.id().to_string();
    Ok(two.awaited().result(cx).await? + id.len() as u64)
}

fn main() {}
