//! The Debug of an error of anyhow, which may show a backtrace
//! how: backtrace

use aether::prelude::*;

fn check(amount: i64) -> anyhow::Result<i64> {
    anyhow::ensure!(amount > 0, "the amount is {amount}");
    Ok(amount)
}

fn look() -> String {
    format!("{:?}", check(-3))
}

#[workflow]
pub async fn debug_of_anyhow(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
