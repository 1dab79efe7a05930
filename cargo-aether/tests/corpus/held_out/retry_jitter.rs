//! A wait with jitter, by a trait that extends Duration
//! how: random

use std::time::Duration;

use aether::prelude::*;

trait Jitter {
    fn with_jitter(self) -> Self;
}

impl Jitter for Duration {
    fn with_jitter(self) -> Self {
        self + self.mul_f64(rand::random::<f64>() / 4.0)
    }
}

#[workflow]
pub async fn retry_jitter(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.sleep(Duration::from_millis(400).with_jitter()).await;
    Ok("waited".to_owned())
}
