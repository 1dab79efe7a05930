//! Keys that are spread over servers by a ring of hashes
//! how: clean

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use aether::prelude::*;

struct Ring<'a> {
    points: BTreeMap<u64, &'a str>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl<'a> Ring<'a> {
    fn new(servers: &[&'a str]) -> Self {
        let hasher = BuildHasherDefault::default();
        let mut points = BTreeMap::new();
        for server in servers {
            for copy in 0..16_u8 {
                points.insert(hasher.hash_one((server, copy)), *server);
            }
        }
        Self { points, hasher }
    }

    fn server(&self, key: impl Hash) -> &'a str {
        let hash = self.hasher.hash_one(key);
        self.points.range(hash..).chain(&self.points).next().map_or("", |(_, server)| server)
    }
}

fn moved(seed: u64) -> usize {
    let before = Ring::new(&["a", "b", "c"]);
    let after = Ring::new(&["a", "b", "c", "d"]);
    (0..100).filter(|n| before.server(seed.wrapping_add(*n)) != after.server(seed.wrapping_add(*n))).count()
}

#[workflow]
pub async fn hash_ring(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(format!("{} keys move", moved(cx.random().await)))
}
