//! The order of a hash map in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    let map: std::collections::HashMap<u32, u32> = (0..64).map(|n| (n, n)).collect();
    format!("{map:?}")
}

#[workflow]
pub async fn helper_hash_order(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
