//! A select of two ready futures, polled once in a helper
//! how: random

use aether::prelude::*;
use futures::FutureExt as _;

async fn whichever() -> &'static str {
    tokio::select! {
        () = std::future::ready(()) => "left",
        () = std::future::ready(()) => "right",
    }
}

fn look() -> String {
    (0..16).filter_map(|_| whichever().now_or_never()).collect()
}

#[workflow]
pub async fn select_in_a_helper(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
