//! What is computed inside of a span
//! how: clean

use aether::prelude::*;

fn price(order: u64, percent: u64) -> u64 {
    order / 2 + order * percent / 100
}

#[workflow]
pub async fn computed_in_a_span(cx: &mut Cx, _input: u64) -> Result<String> {
    let order = cx.random().await % 10_000;
    let price = tracing::info_span!("quote", order).in_scope(|| {
        tracing::debug!(order, "asked");
        price(order, 19)
    });
    Ok(price.to_string())
}
