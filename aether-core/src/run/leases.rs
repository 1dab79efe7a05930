//! When this worker renewed its leases.
//!
//! Promise: leases look older than they are, never younger, and no clock that somebody sets changes that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sched::AtomicU64;

/// Wait before a failed renewal is tried again.
pub(crate) const RENEWAL_RETRY: Duration = Duration::from_millis(250);

/// When this worker renewed its leases.
#[derive(Debug)]
pub(crate) struct Leases {
    /// How long another worker must see this one silent before it may take its runs over.
    pub(crate) lease: Duration,
    /// When the newest renewal that was written began; microseconds by the monotonic clock.
    renewed: AtomicU64,
}

impl Leases {
    /// The leases of a worker that registered at `at`.
    pub(crate) fn new(lease: Duration, at: Duration) -> Self {
        Self { lease, renewed: micros(at).into() }
    }

    /// Whether the leases hold for at least a quarter of their length from `now` on.
    pub(super) fn are_fresh(&self, now: Duration) -> bool {
        self.is_fresh(self.renewed.load(Ordering::Acquire), now)
    }

    /// As [`Leases::are_fresh`], by a renewal that began at `began`.
    pub(super) fn hold(&self, began: Duration, now: Duration) -> bool {
        self.is_fresh(micros(began), now)
    }

    fn is_fresh(&self, renewed: u64, now: Duration) -> bool {
        let limit = micros(self.lease).saturating_mul(3) / 4;
        micros(now).saturating_sub(renewed) < limit
    }

    /// A renewal was written that began at `began`.
    pub(super) fn renewed(&self, began: Duration) {
        self.renewed.fetch_max(micros(began), Ordering::AcqRel);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
