//! A hash map of another crate with seeds that are given
//! how: clean

use std::collections::HashMap;
use std::hash::BuildHasher;

use aether::prelude::*;
use ahash::RandomState;

fn spread(seed: u64) -> Vec<String> {
    let state = RandomState::with_seeds(11, 22, 33, 44);
    let mut shards: HashMap<u64, Vec<u64>, RandomState> = HashMap::with_hasher(state.clone());
    for n in 0..24_u64 {
        shards.entry(state.hash_one(seed.wrapping_add(n)) % 5).or_default().push(n);
    }
    let mut lines = Vec::new();
    for shard in 0..5 {
        if let Some(items) = shards.get(&shard) {
            lines.push(format!("{shard}: {items:?}"));
        }
    }
    lines
}

#[workflow]
pub async fn ahash_with_seeds(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(spread(cx.random().await).join("; "))
}
