//! A join of futures
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn futures_join(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let (a, b) = futures::join!(std::future::ready(1), std::future::ready(2));
    Ok(format!("{a}{b}"))
}
