//! The real world: the system's clock, the operating system's entropy, and tokio's timers.

use std::time::Duration;

use aether_core::environment::Environment;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// The longest wait in one piece, so that a change of the system's clock is noticed.
const LONGEST_NAP: Duration = Duration::from_secs(60);

/// The system's clock and entropy. Waiting needs a tokio runtime with timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// # Panics
    /// When the operating system gives no entropy: run ids and recorded draws must not be guessable, so nothing can
    /// take its place.
    fn fill_random(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system gives no entropy: {error}");
        }
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let left = until.duration_since(Timestamp::now());
                if left.is_zero() || left.is_negative() {
                    return;
                }
                let left = Duration::try_from(left).unwrap_or(LONGEST_NAP);
                tokio::time::sleep(left.min(LONGEST_NAP)).await;
            }
        })
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}
