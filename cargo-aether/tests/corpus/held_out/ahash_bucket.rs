//! A bucket by the hash of ahash with its random keys
//! how: hash

use std::hash::{BuildHasher, Hash};

use aether::prelude::*;

struct Ring<S> {
    build: S,
    nodes: Vec<&'static str>,
}

impl<S: BuildHasher> Ring<S> {
    fn node(&self, key: impl Hash) -> &'static str {
        self.nodes[self.build.hash_one(key) as usize % self.nodes.len()]
    }
}

fn ring() -> Ring<ahash::RandomState> {
    Ring { build: ahash::RandomState::new(), nodes: vec!["n0", "n1", "n2", "n3", "n4", "n5", "n6"] }
}

#[workflow]
pub async fn ahash_bucket(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(ring().node("order-7").to_owned())
}
