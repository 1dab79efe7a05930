//! A token with a digest that is written and read again
//! how: clean

use aether::prelude::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

#[derive(Debug, thiserror::Error)]
enum TokenError {
    #[error("the token has no dot")]
    NoDot,
    #[error("the token is not base64")]
    Encoding(#[from] base64::DecodeError),
    #[error("the digest is another")]
    Digest,
}

fn signature(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let inner = Sha256::digest([key, payload].concat());
    Sha256::digest([key, &inner[..]].concat()).to_vec()
}

fn sign(key: &[u8], payload: &str) -> String {
    let body = URL_SAFE_NO_PAD.encode(payload);
    format!("{body}.{}", URL_SAFE_NO_PAD.encode(signature(key, payload.as_bytes())))
}

fn open(key: &[u8], token: &str) -> std::result::Result<Vec<u8>, TokenError> {
    let (body, digest) = token.split_once('.').ok_or(TokenError::NoDot)?;
    let payload = URL_SAFE_NO_PAD.decode(body)?;
    if URL_SAFE_NO_PAD.decode(digest)? != signature(key, &payload) {
        return Err(TokenError::Digest);
    }
    Ok(payload)
}

#[workflow]
pub async fn base64_signed_token(cx: &mut Cx, _input: u64) -> Result<String> {
    let key = cx.random().await.to_le_bytes();
    let token = sign(&key, "customer 17");
    let payload = open(&key, &token)?;
    let wrong = open(b"other", &token).map_err(|error| error.to_string());
    Ok(format!("{token} {} {wrong:?}", String::from_utf8_lossy(&payload)))
}
