//! The order of a hash map under the default hasher with fixed keys
//! how: clean

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

use aether::prelude::*;

type Fixed = BuildHasherDefault<DefaultHasher>;

fn pairs(seed: u64) -> String {
    let mut tags: HashMap<String, u64, Fixed> = HashMap::with_hasher(Fixed::default());
    tags.extend((0..12).map(|n| (format!("tag-{n}"), seed >> n & 7)));
    let levels: HashSet<u64, Fixed> = tags.values().copied().collect();
    format!("{tags:?} {levels:?}")
}

#[workflow]
pub async fn default_hasher_map_order(cx: &mut Cx, _input: u64) -> Result<String> {
    let seed = cx.random().await;
    Ok(pairs(seed))
}
