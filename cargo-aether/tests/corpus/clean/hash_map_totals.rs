//! Questions about all values of a hash map whose answer has no order
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

fn summary(stock: &HashMap<String, u64>) -> String {
    let total: u64 = stock.values().sum();
    let most = stock.values().copied().max().unwrap_or(0);
    let least = stock.values().min().copied().unwrap_or(0);
    let empty = stock.values().filter(|n| **n == 0).count();
    let any_large = stock.iter().any(|(_, n)| *n > 90);
    let all_named = stock.keys().all(|name| !name.is_empty());
    format!("{total} {most} {least} {empty} {any_large} {all_named}")
}

fn stock(seed: u64) -> HashMap<String, u64> {
    (0..20).map(|n| (format!("bin-{n}"), (seed.rotate_left(n) ^ u64::from(n)) % 100)).collect()
}

#[workflow]
pub async fn hash_map_totals(cx: &mut Cx, _input: u64) -> Result<String> {
    let mut stock = stock(cx.random().await);
    stock.retain(|_, count| *count % 7 != 3);
    Ok(summary(&stock))
}
