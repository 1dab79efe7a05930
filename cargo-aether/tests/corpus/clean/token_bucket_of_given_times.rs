//! A rate limit that is told the time
//! how: clean

use std::time::Duration;

use aether::prelude::*;

trait Clock {
    fn elapsed(&self) -> Duration;
}

struct Given(std::cell::Cell<Duration>);

impl Clock for Given {
    fn elapsed(&self) -> Duration {
        self.0.get()
    }
}

struct Bucket<'a> {
    clock: &'a dyn Clock,
    filled: Duration,
    tokens: f64,
}

impl Bucket<'_> {
    fn take(&mut self) -> bool {
        let now = self.clock.elapsed();
        self.tokens = (self.tokens + (now - self.filled).as_secs_f64() * 2.0).min(5.0);
        self.filled = now;
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}

fn allowed(gaps: &[u64]) -> String {
    let clock = Given(std::cell::Cell::new(Duration::ZERO));
    let mut bucket = Bucket { clock: &clock, filled: Duration::ZERO, tokens: 3.0 };
    let mut answers = String::new();
    for gap in gaps {
        clock.0.set(clock.0.get() + Duration::from_millis(*gap));
        answers.push(if bucket.take() { '+' } else { '-' });
    }
    answers
}

#[workflow]
pub async fn token_bucket_of_given_times(cx: &mut Cx, _input: u64) -> Result<String> {
    let seed = cx.random().await;
    let gaps: Vec<u64> = (0..20).map(|n| (seed >> n) & 0x1ff).collect();
    Ok(allowed(&gaps))
}
