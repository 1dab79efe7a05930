//! Entries of a hash map, sorted by a comparison of values that many of them share
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

fn heaviest(parcels: &[(&str, f64)]) -> Vec<String> {
    let by_name: HashMap<String, f64> =
        parcels.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
    let mut all: Vec<(String, f64)> = by_name.into_iter().collect();
    all.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().map(|(name, _)| name).collect()
}

#[workflow]
pub async fn ties_of_a_comparison(cx: &mut Cx, _input: u64) -> Result<String> {
    let salt = cx.random().await;
    let all = heaviest(&[("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 1.0), ("e", 1.0)]);
    Ok(format!("{salt} {}", all.join(" ")))
}
