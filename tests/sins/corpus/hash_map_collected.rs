//! The order of a hash map that was collected
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn hash_map_collected(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    use std::collections::HashMap;
    let map: HashMap<u32, u32> = (0..64).map(|n| (n, n)).collect();
    Ok(format!("{map:?}"))
}
