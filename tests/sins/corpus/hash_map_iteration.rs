//! The order of a hash map
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn hash_map_iteration(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let map = std::collections::HashMap::from([(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e')]);
    Ok(map.into_values().collect())
}
