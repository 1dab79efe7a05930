//! The order of a hash map in the input
//! how: indirect

use aether::prelude::*;

#[derive(Default)]
struct Tagged {
    tags: std::collections::HashMap<String, u64>,
}

fn tagged(count: u64) -> Tagged {
    Tagged { tags: (0..64 + count).map(|n| (format!("k{n} "), n)).collect() }
}

#[workflow]
pub async fn input_map_order(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(tagged(_input).tags.into_keys().collect())
}
