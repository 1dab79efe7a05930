//! A trait of one's own for hash maps, and one for all that can be gone through
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

trait Joined {
    fn joined(&self) -> String;
}

impl Joined for HashMap<String, u64> {
    fn joined(&self) -> String {
        let mut out = String::new();
        for (name, price) in self {
            out.push_str(&format!("{name}={price};"));
        }
        out
    }
}

trait Listed: IntoIterator<Item = (String, u64)> + Sized {
    fn listed(self) -> String {
        let mut out = String::new();
        for (name, price) in self {
            out.push_str(&format!("{name}={price};"));
        }
        out
    }
}

impl<I: IntoIterator<Item = (String, u64)>> Listed for I {}

fn prices(count: u64) -> HashMap<String, u64> {
    (0..count).map(|n| (format!("item {n}"), n * n)).collect()
}

#[workflow]
pub async fn trait_for_hash_maps(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(prices(count).joined() + &prices(count).listed())
}
