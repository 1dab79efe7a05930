//! A select of futures
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn futures_select(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    use futures::FutureExt as _;
    let won = futures::select! {
        () = std::future::ready(()).fuse() => "first",
        () = std::future::ready(()).fuse() => "second",
    };
    Ok(won.into())
}
