//! A forgotten dbg! in a helper, which panics where the output is closed
//! how: print

use aether::prelude::*;

fn price(cents: u64) -> u64 {
    dbg!(cents * 119 / 100)
}

fn total(prices: &[u64]) -> String {
    match std::panic::catch_unwind(|| prices.iter().map(|cents| price(*cents)).sum::<u64>()) {
        Ok(total) => total.to_string(),
        Err(_) => "no total".to_owned(),
    }
}

#[workflow]
pub async fn debug_macro_left_in(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(total(&[100, 250]))
}
