//! A loop over a hash map that fills an array by index
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

fn histogram(counts: &HashMap<u8, u32>) -> [u32; 8] {
    let mut bars = [0; 8];
    for (level, count) in counts {
        bars[usize::from(level >> 5)] += count;
    }
    bars
}

fn levels(mut state: u64) -> HashMap<u8, u32> {
    let mut counts = HashMap::new();
    for _ in 0..200 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *counts.entry((state >> 56) as u8).or_insert(0) += 1;
    }
    counts
}

#[workflow]
pub async fn hash_map_into_array(cx: &mut Cx, _input: u64) -> Result<String> {
    let counts = levels(cx.random().await);
    Ok(histogram(&counts).iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}
