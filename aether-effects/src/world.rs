//! The real world: the system's clock, the operating system's entropy, and tokio's timers.

use std::time::Duration;

use aether_core::world::World;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// The system's clock and entropy. Waiting needs a tokio runtime with timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWorld;

impl World for SystemWorld {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        // Version 4 UUIDs carry 122 bits of the operating system's entropy; six of their bits are fixed, so that only
        // the eight low bytes of each (62 random bits, with the variant in the top two) are spread by hashing.
        for chunk in bytes.chunks_mut(8) {
            let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
            let mixed = high.rotate_left(32) ^ low;
            chunk.copy_from_slice(&mixed.to_be_bytes()[..chunk.len()]);
        }
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // In steps, so that a change of the system's clock is noticed.
            loop {
                let left = until.duration_since(Timestamp::now());
                if left.is_zero() || left.is_negative() {
                    return;
                }
                let left = Duration::try_from(left).unwrap_or(Duration::from_secs(60));
                tokio::time::sleep(left.min(Duration::from_secs(60))).await;
            }
        })
    }
}
