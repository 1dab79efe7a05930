//! A join of a list of futures
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn join_all(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let all = futures::future::join_all((0..2).map(std::future::ready)).await;
    Ok(format!("{all:?}"))
}
