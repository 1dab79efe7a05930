//! A hash map whose hasher has fixed keys, looped over
//! how: clean

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use aether::prelude::*;

#[derive(Default)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type FnvMap<K, V> = HashMap<K, V, BuildHasherDefault<Fnv>>;

fn listing(seed: u64) -> String {
    let mut map: FnvMap<u64, u64> = FnvMap::default();
    for n in 0..16 {
        map.insert(n, seed.wrapping_mul(n + 1));
    }
    map.iter().map(|(n, value)| format!("{n}={value:x}")).collect::<Vec<_>>().join(" ")
}

#[workflow]
pub async fn hash_map_fixed_hasher(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(listing(cx.random().await))
}
