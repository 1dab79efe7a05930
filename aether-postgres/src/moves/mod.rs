//! Moving buckets from one database to another while their runs are advanced.
//!
//! Promise: nothing that was acknowledged is lost or doubled, whatever crashes when. A move is a row in the first database
//! and steps that can each be made again; no transaction spans two databases. A run is held, and its bodies go on, through
//! the move: its worker's next append simply goes to the other database. While a bucket is on its way, which takes some
//! milliseconds, writes of its runs wait, and lists leave them out.

use std::ops::Range;

use aether_core::store::StoreError;

use crate::database::ask;
use crate::row::get;
use crate::shard::SHARDS;
use crate::store::PostgresStore;

pub(crate) mod steps;

/// What one database of a store has, as [`PostgresStore::placement`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// The database's name.
    pub database: String,
    /// How many buckets it has.
    pub buckets: usize,
    /// How many of them are about to be moved away.
    pub leaving: usize,
}

const ALL: &str = "SELECT shard, database, target IS NOT NULL FROM placement ORDER BY shard";

impl PostgresStore {
    /// Moves buckets to the database of this name, one after the other. A bucket holds the runs whose ids hash to its
    /// number, 0 to 4095. Buckets that are there already are left alone; the number of those that were moved is returned.
    ///
    /// It may be called while all workers work, and again after an error or a crash. Workers must have been started with
    /// all databases: a bucket is not moved to one that a worker which holds runs of it does not reach. Nor is one moved while
    /// a run of a queue is open in it, because a store of several databases has no queues.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when a database cannot be reached or has no such name, when a run of a queue is open in a
    /// bucket, or when a bucket could not be locked for half a minute. A move that has begun is completed later by any process that has the store open.
    ///
    /// ```no_run
    /// # async fn moves() -> Result<(), Box<dyn std::error::Error>> {
    /// # use aether_postgres::PostgresStore;
    /// let store = PostgresStore::connect_all([
    ///     ("a", "postgres://aether@db-a/shop"),
    ///     ("b", "postgres://aether@db-b/shop"),
    /// ]).await?;
    /// store.move_buckets(0..2048, "b").await?;
    /// # Ok(()) }
    /// ```
    pub async fn move_buckets(&self, buckets: Range<u16>, to: &str) -> Result<usize, StoreError> {
        self.shared.number(to)?;
        let last = u16::try_from(SHARDS).unwrap_or(u16::MAX);
        let mut moved = 0;
        for bucket in buckets.start..buckets.end.min(last) {
            let Ok(shard) = i16::try_from(bucket) else { break };
            moved += usize::from(steps::move_one(&self.shared, shard, to).await?);
        }
        Ok(moved)
    }

    /// Moves as few buckets as give every database as many as the others. Returns how many were moved.
    ///
    /// # Errors
    /// As [`PostgresStore::move_buckets`].
    pub async fn rebalance(&self) -> Result<usize, StoreError> {
        let names: Vec<String> = self.names();
        let mut moved = 0;
        for (shard, to) in
            balanced(self.buckets().await?.into_iter().map(|(at, _)| at).collect(), names.len())
        {
            let Some(name) = names.get(to) else { break };
            moved += usize::from(steps::move_one(&self.shared, shard, name).await?);
        }
        Ok(moved)
    }

    /// How many buckets each database has.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the first database cannot be reached.
    pub async fn placement(&self) -> Result<Vec<Placed>, StoreError> {
        let placed = |database: String| Placed { database, buckets: 0, leaving: 0 };
        let mut all: Vec<Placed> = self.names().into_iter().map(placed).collect();
        for (number, leaving) in self.buckets().await? {
            if let Some(placed) = all.get_mut(number) {
                placed.buckets += 1;
                placed.leaving += usize::from(leaving);
            }
        }
        Ok(all)
    }

    fn names(&self) -> Vec<String> {
        (0..self.shared.all().len()).map(|number| self.shared.name(number).to_owned()).collect()
    }

    /// Of each bucket the number of its database, and whether it is about to be moved.
    async fn buckets(&self) -> Result<Vec<(usize, bool)>, StoreError> {
        let mut buckets = vec![(0, false); SHARDS];
        let rows: Vec<(i16, String, bool)> = ask!(self.shared.home(), |conn| {
            let rows = conn.query(ALL, &[]).await?;
            rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?))).collect::<Result<_, _>>()
        })?;
        for (shard, name, leaving) in rows {
            let number = self.shared.number(&name)?;
            if let Some(bucket) = usize::try_from(shard).ok().and_then(|shard| buckets.get_mut(shard)) {
                *bucket = (number, leaving);
            }
        }
        Ok(buckets)
    }
}

/// Which buckets to move where, so that no database has more than one bucket more than another.
fn balanced(buckets: Vec<usize>, databases: usize) -> Vec<(i16, usize)> {
    let databases = databases.max(1);
    let mut held = vec![0_usize; databases];
    buckets.iter().for_each(|at| held[(*at).min(databases - 1)] += 1);
    let (share, more) = (buckets.len() / databases, buckets.len() % databases);
    // Those that have the most keep the buckets that are left over.
    let mut order: Vec<usize> = (0..databases).collect();
    order.sort_by_key(|at| std::cmp::Reverse(held[*at]));
    let mut wanted = vec![share; databases];
    order.iter().take(more).for_each(|at| wanted[*at] += 1);
    let mut moves = Vec::new();
    for (shard, at) in (0_i16..).zip(buckets) {
        let to = (0..databases).find(|to| held[*to] < wanted[*to]);
        if let (true, Some(to)) = (held[at] > wanted[at], to) {
            held[at] -= 1;
            held[to] += 1;
            moves.push((shard, to));
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_buckets_as_possible_are_moved() {
        assert_eq!(balanced(vec![0, 1, 0, 1], 2), []);
        assert_eq!(balanced(vec![0, 0, 0, 0], 2), [(0, 1), (1, 1)]);
        assert_eq!(balanced(vec![0, 0, 1, 1, 1], 2), []);
        assert_eq!(balanced(vec![0; SHARDS], 3).len(), SHARDS - 1366);
        assert_eq!(balanced(vec![2, 2, 2], 3), [(0, 0), (1, 1)]);
    }
}
