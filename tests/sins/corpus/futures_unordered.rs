//! Futures in the order in which they finish
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn futures_unordered(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    use futures::StreamExt as _;
    let mut running: futures::stream::FuturesUnordered<_> = (0..3).map(std::future::ready).collect();
    let first = running.next().await;
    Ok(format!("{first:?}"))
}
