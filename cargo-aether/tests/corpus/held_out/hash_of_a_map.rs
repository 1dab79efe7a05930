//! Hashes of the entries of a map, mixed in the order of the map
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

fn digest(prices: &HashMap<u64, u64>) -> u64 {
    prices.values().copied().fold(0xcbf2_9ce4_8422_2325, |hash, price| {
        (hash ^ price).wrapping_mul(0x100_0000_01b3)
    })
}

#[workflow]
pub async fn hash_of_a_map(cx: &mut Cx, _input: u64) -> Result<u64> {
    let count = cx.random().await % 5 + 5;
    Ok(digest(&(0..count).map(|n| (n, n * n)).collect()))
}
