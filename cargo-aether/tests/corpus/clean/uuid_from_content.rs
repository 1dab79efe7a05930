//! An id that is derived from what it names
//! how: clean

use aether::prelude::*;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

const SPACE: Uuid = Uuid::from_u128(0x6ba7_b812_9dad_11d1_80b4_00c0_4fd4_30c8);

fn derived(name: &str) -> Uuid {
    let digest = Sha256::new().chain_update(SPACE.as_bytes()).chain_update(name.as_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[workflow]
pub async fn uuid_from_content(cx: &mut Cx, _input: u64) -> Result<String> {
    let order = cx.random().await;
    let id = derived(&format!("order/{order}"));
    let known = id.get_version() == Some(Version::Custom) && id.get_variant() == Variant::RFC4122;
    Ok(format!("{} {known}", id.hyphenated()))
}
