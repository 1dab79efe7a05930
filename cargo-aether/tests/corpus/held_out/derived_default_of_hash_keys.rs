//! A derived Default over a hasher with random keys
//! how: hash

use std::hash::{BuildHasher as _, RandomState};

use aether::prelude::*;

#[derive(Clone, Default)]
struct Buckets {
    keys: RandomState,
    count: u64,
}

impl Buckets {
    fn of(&self, name: &str) -> u64 {
        self.keys.hash_one(name) % self.count.max(1_000)
    }
}

#[workflow]
pub async fn derived_default_of_hash_keys(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Buckets::default().of("order-7").to_string())
}
