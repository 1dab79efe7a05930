//! What an engine measures of its own work: how long appends and replays take, and what went wrong.
//!
//! Promise: to measure takes no lock on the way of an append, allocates nothing, and changes nothing.

#![allow(clippy::disallowed_types, reason = "an explored schedule must not depend on what is measured")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::vocabulary::environment::Environment;

/// Upper bounds of the buckets of a [`Spread`]: from a commit on a fast disk to a store that hangs.
const BOUNDS: [Duration; 15] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// What an engine has measured of its own work since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measures {
    /// From when a run handed an append to the store until it was durable.
    pub appends: Spread,
    /// From when this engine began to read the journal of a run that it took up again until the code had passed all that
    /// is recorded.
    pub replays: Spread,
    /// Events of the journals of those runs.
    pub replayed_events: u64,
    /// Claims that ended because another worker had taken the run over.
    pub leases_lost: u64,
    /// Errors of the store that the engine met in appends, claims, renewals and reads, by
    /// [`StoreError::kind`](crate::store::StoreError::kind).
    pub store_errors: BTreeMap<&'static str, u64>,
}

/// Appends that a store has written since it was opened, and the batches in which it has written them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Number of batches with appends, each written by one commit.
    pub batches: u64,
    /// Number of appends in them.
    pub appends: u64,
}

impl std::iter::Sum for Batches {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            batches: a.batches + b.batches,
            appends: a.appends + b.appends,
        })
    }
}

/// Times of something that happens often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    counts: [u64; BOUNDS.len()],
    longer: u64,
    /// All times together.
    pub sum: Duration,
}

impl Spread {
    /// How often it happened.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.longer
    }

    /// Upper bounds in ascending order, each with how often it took at most that long. What took longer than the last one
    /// is only in [`Spread::count`].
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut so_far = 0;
        BOUNDS.into_iter().zip(self.counts).map(move |(bound, count)| {
            so_far += count;
            (bound, so_far)
        })
    }
}

/// Counts [`Batches`], for a store.
#[derive(Debug, Default)]
pub struct BatchCounter {
    batches: AtomicU64,
    appends: AtomicU64,
}

impl BatchCounter {
    /// A batch with so many appends was committed.
    pub fn committed(&self, appends: usize) {
        if appends > 0 {
            self.batches.fetch_add(1, Ordering::Relaxed);
            self.appends.fetch_add(appends as u64, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub fn read(&self) -> Batches {
        Batches {
            batches: self.batches.load(Ordering::Relaxed),
            appends: self.appends.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug, Default)]
struct Times {
    counts: [AtomicU64; BOUNDS.len()],
    longer: AtomicU64,
    nanos: AtomicU64,
}

impl Times {
    fn note(&self, took: Duration) {
        let bucket = BOUNDS.iter().position(|bound| took <= *bound);
        bucket.map_or(&self.longer, |bucket| &self.counts[bucket]).fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn read(&self) -> Spread {
        Spread {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
            longer: self.longer.load(Ordering::Relaxed),
            sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }
}

/// Takes [`Measures`]. [`Engine::gauge`](crate::engine::Engine::gauge) returns that of an engine; it does not keep the
/// engine alive.
#[derive(Debug)]
pub struct Gauge {
    environment: Arc<dyn Environment>,
    appends: Times,
    replays: Times,
    replayed_events: AtomicU64,
    leases_lost: AtomicU64,
    /// Errors are seldom: a lock is cheap enough.
    store_errors: Mutex<BTreeMap<&'static str, u64>>,
}

impl Gauge {
    /// `environment` has the clock by which times are taken.
    pub(crate) fn new(environment: Arc<dyn Environment>) -> Self {
        Self {
            environment,
            appends: Times::default(),
            replays: Times::default(),
            replayed_events: AtomicU64::default(),
            leases_lost: AtomicU64::default(),
            store_errors: Mutex::default(),
        }
    }

    /// The time by a clock that nobody sets.
    pub(crate) fn now(&self) -> Duration {
        self.environment.monotonic()
    }

    /// An append is durable that was handed over at `since`.
    pub(crate) fn appended(&self, since: Duration) {
        self.appends.note(self.now().saturating_sub(since));
    }

    /// A run was taken up whose journal began to be read at `since`.
    pub(crate) fn replayed(&self, events: u64, since: Duration) {
        self.replays.note(self.now().saturating_sub(since));
        self.replayed_events.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn lost_lease(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn store_failed(&self, kind: &'static str) {
        *self.store_errors.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    /// What was measured so far.
    pub fn read(&self) -> Measures {
        Measures {
            appends: self.appends.read(),
            replays: self.replays.read(),
            replayed_events: self.replayed_events.load(Ordering::Relaxed),
            leases_lost: self.leases_lost.load(Ordering::Relaxed),
            store_errors: self.store_errors.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_it_fits() {
        let times = Times::default();
        for took in [Duration::ZERO, Duration::from_micros(500), Duration::from_secs(61)] {
            times.note(took);
        }
        let appends = times.read();
        assert_eq!(appends.count(), 3);
        assert_eq!(appends.cumulative().next(), Some((Duration::from_micros(500), 2)));
        assert_eq!(appends.cumulative().last(), Some((Duration::from_secs(60), 2)));
        assert_eq!(appends.sum, Duration::from_micros(61_000_500));
    }
}
