//! An entry of a sorted map that is filled with the time when it is absent
//! how: clock

use std::collections::BTreeMap;
use std::time::SystemTime;

use aether::prelude::*;

fn first_seen(names: &[&str]) -> String {
    let mut seen = BTreeMap::new();
    for name in names {
        seen.entry(*name).or_insert_with(SystemTime::now);
    }
    format!("{seen:?}")
}

#[workflow]
pub async fn or_insert_with_clock(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(first_seen(&["a", "b", "a"]))
}
