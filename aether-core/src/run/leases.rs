//! When this worker renewed its leases.
//!
//! Promise: leases look older than they are, never younger, and no clock that somebody sets changes that. A time in which
//! others may have taken runs over is not forgotten when leases are renewed after it.

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
    /// How often so much time lay between two renewals that others may have taken runs over, which may be deleted since.
    breaks: AtomicU64,
}

impl Leases {
    /// The leases of a worker that registered at `at`.
    pub(crate) fn new(lease: Duration, at: Duration) -> Self {
        Self { lease, renewed: micros(at).into(), breaks: 0.into() }
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
        micros(now).saturating_sub(renewed) < self.limit()
    }

    fn limit(&self) -> u64 {
        micros(self.lease).saturating_mul(3) / 4
    }

    /// A renewal was written that began at `began`, and was answered at `answered`.
    pub(super) fn renewed(&self, began: Duration, answered: Duration) {
        // Read and then raised, not swapped: a break must be seen by everybody who sees that the leases are fresh again.
        let former = self.renewed.load(Ordering::Acquire);
        // Between the two writes lay this time at most.
        if micros(answered).saturating_sub(former) >= self.limit() {
            self.breaks.fetch_add(1, Ordering::AcqRel);
        }
        self.renewed.fetch_max(micros(began), Ordering::AcqRel);
    }

    /// How many breaks there were. A claim of which the store said after the newest one that it is held is held for as long
    /// as leases are fresh.
    pub(super) fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::Acquire)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn renewals_that_follow_each_other_are_no_break() {
        let leases = Leases::new(LEASE, at(0));
        leases.renewed(at(15), at(16));
        leases.renewed(at(30), at(59));
        // An older one that is answered late.
        leases.renewed(at(29), at(60));
        assert_eq!(leases.breaks(), 0);
        assert!(leases.are_fresh(at(74)) && !leases.are_fresh(at(75)));
    }

    #[test]
    fn a_silence_between_two_renewals_is_a_break() {
        let leases = Leases::new(LEASE, at(0));
        leases.renewed(at(45), at(45));
        assert_eq!(leases.breaks(), 1);
        // It may have been written at the end of this time.
        leases.renewed(at(60), at(90));
        assert_eq!(leases.breaks(), 2);
    }
}
