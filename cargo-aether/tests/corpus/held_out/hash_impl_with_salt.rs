//! A Hash that mixes in the process's id
//! how: process

use std::hash::{DefaultHasher, Hash, Hasher};

use aether::prelude::*;

struct Shard<'a>(&'a str);

impl Hash for Shard<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::process::id().hash(state);
        self.0.hash(state);
    }
}

fn shard_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    Shard(name).hash(&mut hasher);
    hasher.finish() % 1_000_000
}

#[workflow]
pub async fn hash_impl_with_salt(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(shard_of("order-7").to_string())
}
