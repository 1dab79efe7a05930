//! What a helper asks inside of a span
//! how: env

use aether::prelude::*;

fn price(order: u64) -> u64 {
    order + std::env::args().count() as u64
}

fn quote(order: u64) -> u64 {
    tracing::info_span!("quote", order).in_scope(|| price(order))
}

#[workflow]
pub async fn in_a_span(cx: &mut Cx, _input: u64) -> Result<String> {
    let order = cx.random().await;
    Ok(quote(order).to_string())
}
