//! Whether a token has expired decides whether a step is called
//! how: clock

use std::time::{Duration, Instant};

use aether::prelude::*;

struct Token {
    until: Instant,
}

impl Token {
    fn short() -> Self {
        Token { until: Instant::now() + Duration::from_micros(40) }
    }

    fn is_fresh(&self) -> bool {
        self.until.checked_duration_since(Instant::now()).is_some_and(|left| !left.is_zero())
    }
}

fn must_renew() -> bool {
    let token = Token::short();
    let _work: u64 = (0..2_000).map(std::hint::black_box).sum();
    !token.is_fresh()
}

#[step(effect = "read")]
pub async fn expired_token_decides_renew(cx: &mut StepCx, key: &str) -> Result<u64> {
    Ok(key.len() as u64)
}

#[workflow]
pub async fn expired_token_decides(cx: &mut Cx, _input: u64) -> Result<String> {
    if must_renew() {
        expired_token_decides_renew(cx, "token").await?;
    }
    Ok("done".to_owned())
}
