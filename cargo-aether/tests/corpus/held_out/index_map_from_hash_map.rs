//! An ordered map that is filled from one without an order
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;
use indexmap::IndexMap;

fn totals(lines: &[(&'static str, u32)]) -> IndexMap<&'static str, u32> {
    let mut totals = HashMap::new();
    for (name, amount) in lines {
        *totals.entry(*name).or_insert(0) += amount;
    }
    totals.into_iter().collect()
}

#[workflow]
pub async fn index_map_from_hash_map(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let totals = totals(&[("a", 1), ("b", 2), ("c", 3), ("a", 4), ("d", 5), ("e", 6)]);
    Ok(format!("{totals:?}"))
}
