//! Names that get numbers in the order of a hash map, and are sorted behind that
//! how: hash

use std::collections::{BTreeMap, HashMap};

use aether::prelude::*;

fn numbered(names: HashMap<String, u64>) -> BTreeMap<String, u64> {
    let mut next = 0;
    names
        .into_keys()
        .map(|name| {
            next += 1;
            (name, next)
        })
        .collect()
}

#[workflow]
pub async fn numbered_while_collected(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    let names = (0..count).map(|n| (format!("name {n}"), n)).collect();
    Ok(format!("{:?}", numbered(names)))
}
