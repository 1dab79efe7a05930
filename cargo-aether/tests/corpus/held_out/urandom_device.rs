//! Bytes from the device of random bytes
//! how: fs

use std::fs::File;
use std::io::Read;

use aether::prelude::*;

fn key<R: Read>(mut from: R) -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn look() -> String {
    let bytes = File::open("/dev/urandom").and_then(key).unwrap_or_default();
    hex::encode(bytes)
}

#[workflow]
pub async fn urandom_device(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
