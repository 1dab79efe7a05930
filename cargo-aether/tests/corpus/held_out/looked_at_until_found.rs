//! How many entries of a hash map were looked at until one was found
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

fn looked_at(prices: &HashMap<u64, u64>) -> u64 {
    let mut looked = 0;
    let found = prices.values().any(|price| {
        looked += 1;
        *price > 10
    });
    if found { looked } else { 0 }
}

#[workflow]
pub async fn looked_at_until_found(cx: &mut Cx, _input: u64) -> Result<u64> {
    let count = cx.random().await % 5 + 5;
    Ok(looked_at(&(0..count).map(|n| (n, n * n)).collect()))
}
