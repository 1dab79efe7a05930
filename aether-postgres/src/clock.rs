//! The clock that gives each run its place in the order of creation.
//!
//! Promise: the places that one process gives out rise, whatever any clock does, and follow the server's clock, so that
//! processes on different machines agree on the order within the error of their measurements: about half a round trip to
//! the server. Two processes may give runs that they create within that error either order. What one process creates in
//! several databases has its order while their clocks are less than a second apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use aether_core::store::StoreClock;
use jiff::Timestamp;

/// Bits of a place below the time: the shard.
const SHARD_BITS: u32 = 12;

/// Places count from the year 2025, in microseconds since 1970: 51 bits of them last until 2096.
const BEGINNING: i64 = 1_735_689_600_000_000;

/// How far places follow those of another database, in microseconds: one whose clock is wrong takes no others along.
const TOGETHER: u64 = 1_000_000;

/// The time of the last place that a process gave in any database of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastPlace(Arc<AtomicU64>);

/// Places in the order of creation: microseconds of the server's clock, and below them the shard.
#[derive(Debug)]
pub(crate) struct PlaceClock {
    began: Instant,
    /// Microseconds since 1970 by the server's clock, when `began` was now.
    offset: AtomicI64,
    /// The time of the last place.
    last: AtomicU64,
    beside: LastPlace,
}

impl PlaceClock {
    /// The clock of one database of a store, whose others know `beside` as well.
    pub(crate) fn new(beside: LastPlace) -> Self {
        Self { began: Instant::now(), offset: AtomicI64::new(0), last: AtomicU64::new(0), beside }
    }

    /// Microseconds since this clock was made.
    pub(crate) fn elapsed(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// The server's clock said `server` when this one said `elapsed`.
    pub(crate) fn set(&self, server: i64, elapsed: i64) {
        self.offset.store(server.saturating_sub(elapsed), Ordering::Relaxed);
    }

    /// The time by the server's clock, in microseconds since 1970, as far as it was measured; `None` before that.
    fn server_time(&self) -> Option<i64> {
        let offset = self.offset.load(Ordering::Relaxed);
        (offset != 0).then(|| offset.saturating_add(self.elapsed()))
    }

    /// How far this clock was off in microseconds, when the server's said `server` and this one `elapsed`.
    pub(crate) fn error_at(&self, server: i64, elapsed: i64) -> i64 {
        server.saturating_sub(self.offset.load(Ordering::Relaxed).saturating_add(elapsed)).saturating_abs()
    }

    /// From now on places are behind `place`, which a run of the database has.
    pub(crate) fn pass(&self, place: u64) {
        self.last.fetch_max(place >> SHARD_BITS, Ordering::Relaxed);
    }

    /// The next place for something of `shard`.
    pub(crate) fn next(&self, shard: i16) -> i64 {
        let now = self.offset.load(Ordering::Relaxed).saturating_add(self.elapsed());
        let now = u64::try_from(now.saturating_sub(BEGINNING)).unwrap_or(0);
        let beside = self.beside.0.load(Ordering::Relaxed);
        let now = if beside.saturating_sub(now) < TOGETHER { now.max(beside.saturating_add(1)) } else { now };
        let after = |last: u64| Some(now.max(last.saturating_add(1)));
        let last = match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after) {
            Ok(last) | Err(last) => last,
        };
        let time = now.max(last.saturating_add(1));
        self.beside.0.fetch_max(time, Ordering::Relaxed);
        let time = i64::try_from(time).unwrap_or(i64::MAX).min(i64::MAX >> SHARD_BITS);
        (time << SHARD_BITS) | i64::from(shard)
    }
}

impl StoreClock for PlaceClock {
    fn now(&self) -> Option<Timestamp> {
        self.server_time().and_then(|micros| Timestamp::from_microsecond(micros).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_rise_though_the_clock_goes_back() {
        let clock = PlaceClock::new(LastPlace::default());
        clock.set(1_800_000_000_000_000, clock.elapsed());
        let first = clock.next(4095);
        clock.set(1_700_000_000_000_000, clock.elapsed());
        let second = clock.next(0);
        assert!(second > first, "{second} is not behind {first}");
        assert_eq!((first & 4095, second & 4095), (4095, 0));
    }

    #[test]
    fn places_of_two_databases_rise_while_their_clocks_are_near() {
        let beside = LastPlace::default();
        let clocks = [PlaceClock::new(beside.clone()), PlaceClock::new(beside)];
        let set = |no: usize, micros| clocks[no].set(micros, clocks[no].elapsed());
        let next = |no: usize| clocks[no].next(0) >> SHARD_BITS;
        set(0, 1_800_000_000_800_000);
        set(1, 1_800_000_000_000_000);
        let places = [next(0), next(1), next(0), next(1)];
        assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
        // One that is far ahead takes no other along.
        set(0, 1_800_000_100_000_000);
        let (ahead, behind) = (next(0), next(1));
        assert!(ahead > behind && behind > places[3], "{ahead} {behind} {places:?}");
        assert!(ahead - behind > 90_000_000, "{ahead} {behind}");
    }

    #[test]
    fn its_time_is_the_servers_since_it_was_measured() {
        let clock = PlaceClock::new(LastPlace::default());
        assert_eq!(clock.server_time(), None);
        clock.set(1_800_000_000_000_000, clock.elapsed());
        let now = clock.server_time().unwrap();
        assert!((1_800_000_000_000_000..1_800_000_060_000_000).contains(&now), "{now}");
    }

    #[test]
    fn places_are_behind_those_of_the_database() {
        let clock = PlaceClock::new(LastPlace::default());
        let there = 1_100_000_000_000_000_u64 << 12;
        clock.pass(there);
        assert!(clock.next(0) > i64::try_from(there).unwrap());
    }
}
