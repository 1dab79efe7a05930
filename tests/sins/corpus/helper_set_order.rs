//! The order of a hash set in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    let set: std::collections::HashSet<String> = (0..64).map(|n| format!("k{n}")).collect();
    set.into_iter().collect()
}

#[workflow]
pub async fn helper_set_order(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
