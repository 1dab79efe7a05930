//! The order of a hash set
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn hash_set_iteration(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let mut set = std::collections::HashSet::new();
    set.extend(0..64);
    Ok(format!("{set:?}"))
}
