//! A retain whose closure counts what it keeps
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

fn shrink(cache: &mut HashMap<String, u32>, limit: usize) {
    let mut kept = 0;
    cache.retain(|_, _| {
        kept += 1;
        kept <= limit
    });
}

fn look() -> String {
    let mut cache: HashMap<String, u32> = (0..20).map(|number| (format!("key {number}"), number)).collect();
    shrink(&mut cache, 5);
    (0..20)
        .filter(|number| cache.contains_key(&format!("key {number}")))
        .map(|number| format!("{number} "))
        .collect()
}

#[workflow]
pub async fn retain_the_first_ones(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
