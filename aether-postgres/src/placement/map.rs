//! Which database has which bucket, as this process knows it.
//!
//! Promise: an entry gives way only to a later one of the same bucket. Whoever queues a write holds the map meanwhile, so
//! that a change of the map has the writes before it in one queue and those behind it in another.

use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use crate::shard::SHARDS;

/// Where a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The number of its database.
    pub(crate) database: usize,
    /// How often the bucket was moved: a later spot has a higher version.
    pub(crate) version: i64,
    /// It is known to have arrived there: what is not there is nowhere. Else it may still be on its way.
    pub(crate) settled: bool,
}

impl Default for Spot {
    /// Where every bucket is that was never moved.
    fn default() -> Self {
        Self { database: 0, version: 0, settled: true }
    }
}

/// The spots of all buckets.
#[derive(Debug)]
pub(crate) struct PlacementMap(RwLock<Vec<Spot>>);

/// The map, while nothing is queued by it.
#[derive(Debug)]
pub(crate) struct Held<'m>(RwLockWriteGuard<'m, Vec<Spot>>);

fn of(spots: &[Spot], shard: i16) -> Spot {
    usize::try_from(shard).ok().and_then(|shard| spots.get(shard)).copied().unwrap_or_default()
}

impl PlacementMap {
    /// The first database has them all.
    pub(crate) fn first() -> Self {
        Self(RwLock::new(vec![Spot::default(); SHARDS]))
    }

    /// Where a bucket is.
    pub(crate) fn spot(&self, shard: i16) -> Spot {
        self.with(shard, |spot| spot)
    }

    /// Does something with a bucket's spot that is over before the spot changes.
    pub(crate) fn with<T>(&self, shard: i16, then: impl FnOnce(Spot) -> T) -> T {
        let spots = self.0.read().unwrap_or_else(PoisonError::into_inner);
        then(of(&spots, shard))
    }

    /// Holds the map: nobody queues anything until this is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Held<'_> {
    /// Where a bucket is.
    pub(crate) fn spot(&self, shard: i16) -> Spot {
        of(&self.0, shard)
    }

    /// The bucket is there from now on, unless a later spot is known.
    pub(crate) fn set(&mut self, shard: i16, spot: Spot) {
        let known = usize::try_from(shard).ok().and_then(|shard| self.0.get_mut(shard));
        match known {
            Some(known) if known.version < spot.version => *known = spot,
            Some(known) if known.version == spot.version => known.settled |= spot.settled,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_spot_replaces_no_later_one() {
        let map = PlacementMap::first();
        let spot = |database, version, settled| Spot { database, version, settled };
        map.hold().set(7, spot(1, 2, true));
        map.hold().set(7, spot(1, 2, false));
        map.hold().set(7, spot(0, 1, false));
        map.hold().set(-1, spot(3, 9, true));
        assert_eq!(map.spot(7), spot(1, 2, true));
        assert_eq!(map.spot(8), Spot::default());
        assert_eq!(map.spot(-1), Spot::default());
    }
}
