#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let (_, _) = cx.join((async |cx: &mut Cx| cx.now().await, async |cx: &mut Cx| cx.uuid().await)).await;
    Ok(())
}

fn main() {}
