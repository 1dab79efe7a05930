//! An idempotency key that is a digest of the order and the moment, given to a step
//! how: clock

use aether::prelude::*;
use sha2::{Digest as _, Sha256};

fn key_for(order: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(order);
    digest.update(time::OffsetDateTime::now_utc().unix_timestamp_nanos().to_be_bytes());
    hex::encode(&digest.finalize()[..])
}

#[step(effect = "read")]
pub async fn digest_of_the_moment_charge(cx: &mut StepCx, key: &str) -> Result<u64> {
    Ok(key.len() as u64)
}

#[workflow]
pub async fn digest_of_the_moment(cx: &mut Cx, _input: u64) -> Result<String> {
    let key = key_for("order-7");
    Ok(digest_of_the_moment_charge(cx, &key).await?.to_string())
}
