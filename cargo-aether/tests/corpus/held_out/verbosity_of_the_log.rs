//! A text that is longer where the log is verbose
//! how: static

use aether::prelude::*;

fn describe(order: u64) -> String {
    if tracing::enabled!(tracing::Level::DEBUG) {
        format!("order {order} with {} bits set", order.count_ones())
    } else {
        format!("order {order}")
    }
}

#[workflow]
pub async fn verbosity_of_the_log(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(describe(7))
}
