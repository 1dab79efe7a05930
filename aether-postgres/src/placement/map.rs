//! Which database has which bucket, as this process knows it.
//!
//! Promise: an entry gives way only to a later one of the same bucket. Whoever queues a write holds the map meanwhile, so
//! that a change of the map has the writes before it in one queue and those behind it in another.

use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use crate::shard::SHARDS;

/// Where a bucket is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The number of its database.
    pub(crate) database: usize,
    /// How often the bucket was moved: a later spot has a higher version.
    pub(crate) version: i64,
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
        if let Some(known) = known.filter(|known| known.version < spot.version) {
            *known = spot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_spot_replaces_no_later_one() {
        let map = PlacementMap::first();
        map.hold().set(7, Spot { database: 1, version: 2 });
        map.hold().set(7, Spot { database: 0, version: 1 });
        map.hold().set(-1, Spot { database: 3, version: 9 });
        assert_eq!(map.spot(7), Spot { database: 1, version: 2 });
        assert_eq!(map.spot(8), Spot::default());
        assert_eq!(map.spot(-1), Spot::default());
    }
}
