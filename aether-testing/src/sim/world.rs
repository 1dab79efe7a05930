//! The world of a simulation: a clock that skips the time in which nothing runs, and entropy from a seed.
//!
//! Promise: two simulations with one start and one seed see the same times and the same draws.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether_core::environment::Environment;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;

/// Longest single wait given to tokio, which cannot hold more than about two years.
const STRIDE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Entropy from a seed (the SplitMix64 generator); clones draw from one sequence.
#[derive(Clone)]
pub(crate) struct Entropy(Arc<AtomicU64>);

impl Entropy {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// A number below `count`, which is not 0.
    pub(crate) fn below(&self, count: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % count.max(1)
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

/// A clock on tokio's, and entropy from a seed. On a runtime with paused time, waiting takes none.
#[derive(Clone, Debug)]
pub struct SimEnvironment {
    base: Timestamp,
    start: Instant,
    entropy: Entropy,
}

impl SimEnvironment {
    /// A world in which it is `at` now, and whose random values come from `seed`.
    pub fn new(at: Timestamp, seed: u64) -> Self {
        Self::with_entropy(at, Entropy::new(seed))
    }

    pub(crate) fn with_entropy(at: Timestamp, entropy: Entropy) -> Self {
        Self { base: at, start: Instant::now(), entropy }
    }
}

impl Environment for SimEnvironment {
    fn now(&self) -> Timestamp {
        self.base.saturating_add(self.start.elapsed()).unwrap_or(Timestamp::MAX)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.entropy.next().to_be_bytes()[..chunk.len()]);
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        let world = self.clone();
        Box::pin(async move {
            loop {
                let left = until.duration_since(world.now());
                if !left.is_positive() {
                    return;
                }
                tokio::time::sleep(Duration::try_from(left).unwrap_or(STRIDE).min(STRIDE)).await;
            }
        })
    }
}
