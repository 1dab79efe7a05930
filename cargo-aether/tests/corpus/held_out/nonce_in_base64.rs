//! A nonce that is filled in place and encoded
//! how: random

use aether::prelude::*;
use base64::Engine as _;

struct Nonce([u8; 12]);

impl Nonce {
    fn fresh() -> Self {
        let mut bytes = [0; 12];
        getrandom::fill(&mut bytes).expect("entropy");
        Nonce(bytes)
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> String {
        base64::prelude::BASE64_STANDARD.encode(nonce.0)
    }
}

#[workflow]
pub async fn nonce_in_base64(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Nonce::fresh().into())
}
