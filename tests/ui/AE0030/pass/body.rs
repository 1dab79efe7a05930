#![deny(warnings)]
use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, rounds: u64) -> Result<u64> {
    let (drawn, _) = cx.join((async |cx: &mut Cx| cx.random().await, async |cx: &mut Cx| cx.now().await)).await;
    if drawn == 0 {
        return cx.continue_as_new::<flow>(rounds).await;
    }
    loop {
        if cx.should_continue_as_new().await {
            return cx.continue_as_new::<flow>(rounds + 1).await;
        }
        cx.signal::<u64>("go").await?;
    }
}

/// Hand over to another workflow, which takes another input and returns the same.
#[workflow]
async fn before(cx: &mut Cx, small: u32) -> Result<u64> {
    cx.continue_as_new::<flow>(small).await
}

fn main() {}
