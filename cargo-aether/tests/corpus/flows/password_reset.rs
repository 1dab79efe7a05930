//! A token drawn by the context is hashed, mailed, and good for an hour
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    token: String,
    password_hash: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Reset {
    Done,
    TooManyAttempts,
    Expired,
}

fn digest(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}

/// Equal, in a time that does not depend on where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn password_reset_mail(_cx: &mut StepCx, user: u64, token: &str) -> Result<()> {
    Ok(())
}

#[step(effect = "tool", irreversible)]
pub async fn password_reset_store(_cx: &mut StepCx, user: u64, password_hash: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn password_reset(cx: &mut Cx, user: u64) -> Result<Reset> {
    let token = URL_SAFE_NO_PAD.encode(cx.seed().await);
    let expected = digest(&token);
    password_reset_mail(cx, user, &token).await?;
    for attempt in 1..=3 {
        match cx.signal::<Attempt>("attempt").timeout(Duration::from_secs(3600)).await {
            Ok(given) if same(&digest(&given.token), &expected) => {
                password_reset_store(cx, user, &given.password_hash).await?;
                return Ok(Reset::Done);
            }
            Ok(_) => tracing::warn!(user, attempt, "a wrong token"),
            Err(StepError::TimedOut(_)) => return Ok(Reset::Expired),
            Err(other) => return Err(other.into()),
        }
    }
    Ok(Reset::TooManyAttempts)
}
