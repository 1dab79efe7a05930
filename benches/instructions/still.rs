//! A world in which no time passes and nothing is random, so that two processes do the same.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether::engine::Environment;
use aether::jiff::Timestamp;

type Never = Pin<Box<dyn Future<Output = ()> + Send>>;

/// No timer of it ends.
#[derive(Debug, Default)]
pub(crate) struct StillWorld {
    drawn: AtomicU64,
}

impl Environment for StillWorld {
    fn now(&self) -> Timestamp {
        Timestamp::constant(1_767_225_600, 123_456_000)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
            let number = drawn.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }

    fn sleep_until(&self, _until: Timestamp) -> Never {
        Box::pin(pending())
    }

    fn sleep(&self, _span: Duration) -> Never {
        Box::pin(pending())
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}
