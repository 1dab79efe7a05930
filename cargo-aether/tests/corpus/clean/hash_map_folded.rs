//! Sums and masks of a hash map that are made by folds
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

fn told(prices: &HashMap<u64, u64>) -> String {
    let sum = prices.values().fold(0, |sum, price| sum + *price);
    let mask = prices.values().copied().fold(0_u64, |mask, price| price | mask);
    let most = prices.keys().fold(0_u64, |most, key| most.max(*key));
    format!("{sum} {mask} {most}")
}

#[workflow]
pub async fn hash_map_folded(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(told(&(0..count).map(|n| (n, n * n)).collect()))
}
