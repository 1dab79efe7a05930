//! Waits with jitter from a generator whose seed is given
//! how: clean

use std::time::Duration;

use aether::prelude::*;

struct Backoff {
    base: Duration,
    most: Duration,
    generator: fastrand::Rng,
}

impl Backoff {
    fn new(seed: u64) -> Self {
        let generator = fastrand::Rng::with_seed(seed);
        Self { base: Duration::from_millis(200), most: Duration::from_secs(30), generator }
    }

    fn delay(&mut self, attempt: u32) -> Duration {
        let full = self.base.saturating_mul(2_u32.saturating_pow(attempt)).min(self.most);
        let part = self.generator.u64(0..=full.as_millis() as u64 / 2);
        full / 2 + Duration::from_millis(part)
    }
}

#[workflow]
pub async fn seeded_fastrand_jitter(cx: &mut Cx, _input: u64) -> Result<String> {
    let mut backoff = Backoff::new(cx.random().await);
    let delays = (0..10).map(|attempt| backoff.delay(attempt)).collect::<Vec<_>>();
    let total: Duration = delays.iter().sum();
    Ok(format!("{delays:?} {total:?}"))
}
