//! The root of a tree of digests
//! how: clean

use aether::prelude::*;
use sha2::{Digest, Sha256};

fn leaf(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn root(mut level: Vec<[u8; 32]>) -> Option<[u8; 32]> {
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| {
                let mut hasher = Sha256::new();
                hasher.update(pair[0]);
                hasher.update(pair.get(1).unwrap_or(&pair[0]));
                hasher.finalize().into()
            })
            .collect();
    }
    level.pop()
}

#[workflow]
pub async fn merkle_root(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 9 + 1;
    let leaves = (0..count).map(|n| leaf(&format!("block {n}"))).collect();
    let root = root(leaves).ok_or("no leaves")?;
    Ok(hex::encode(root))
}
