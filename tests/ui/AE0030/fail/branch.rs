use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, rounds: u64) -> Result<u64> {
    cx.join((
        async |cx: &mut Cx| cx.continue_as_new::<flow>(rounds).await,
        async |own: &mut Cx| own.continue_as_new::<flow>(rounds).await,
    ))
    .await
    .0
}

fn main() {}
