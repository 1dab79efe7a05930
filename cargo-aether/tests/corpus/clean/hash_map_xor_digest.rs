//! A digest of a hash map that combines its entries by exclusive or
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

fn mix(key: &str, value: u64) -> u64 {
    key.bytes().fold(value ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn digest(settings: &HashMap<&str, u64>) -> u64 {
    settings.iter().fold(settings.len() as u64, |digest, (key, value)| digest ^ mix(key, *value))
}

fn compared(limit: u64) -> String {
    let before = HashMap::from([("limit", limit), ("retries", 3), ("window", 60), ("burst", 12)]);
    let mut after = before.clone();
    after.insert("retries", 4);
    format!("{:016x} {:016x} {}", digest(&before), digest(&after), before == after)
}

#[workflow]
pub async fn hash_map_xor_digest(cx: &mut Cx, _input: u64) -> Result<String> {
    let limit = cx.random().await;
    Ok(compared(limit))
}
