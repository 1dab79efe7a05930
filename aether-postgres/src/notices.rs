//! Telling parents of the end of their children.
//!
//! Promise: a notice is written with the child's end, and deleted only after the parent was made due, which may happen more
//! than once. So nothing crosses shards in one transaction, and a crash in between delays a notice by about a second.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use aether_core::store::StoreError;

use crate::database::{Database, ask};
use crate::placement::map::Spot;
use crate::placement::shared::{Shared, Standing};
use crate::row::get;
use crate::shard::shard;

/// How often notices are looked for that another process has left.
const SWEEP: Duration = Duration::from_secs(1);
/// How many are delivered at once.
const PAGE: usize = 500;

const OLDEST: &str = "SELECT shard, child, parent, at FROM notices ORDER BY shard, child LIMIT $1::int8";

/// Makes runs due that have not ended. One that ends at this moment is left with a row that no claim takes.
const WAKE: &str = "
INSERT INTO due(shard, run, wake_at, code, seq, notified, queue)
SELECT q.shard, q.run, q.at, r.code, 0, true, r.queue
FROM unnest($1::int2[], $2::text[], $3::int8[]) AS q(shard, run, at)
    JOIN runs r ON r.shard = q.shard AND r.id = q.run AND r.status < 3
ON CONFLICT (shard, run) DO UPDATE SET wake_at = least(due.wake_at, EXCLUDED.wake_at), notified = true";

const DELIVERED: &str = "DELETE FROM notices n USING unnest($1::int2[], $2::text[]) AS q(shard, child)
    WHERE n.shard = q.shard AND n.child = q.child";

/// A notice that was not delivered yet.
#[derive(Debug)]
struct Notice {
    shard: i16,
    child: String,
    parent: String,
    at: i64,
}

/// The task that delivers the notices of a store.
#[derive(Debug)]
pub(crate) struct Notices;

impl Notices {
    /// Starts delivering, for as long as the store is there.
    pub(crate) fn start(shared: &Arc<Shared>) {
        for number in 0..shared.all().len() {
            tokio::spawn(deliver(Arc::downgrade(shared), number));
        }
    }
}

async fn deliver(store: Weak<Shared>, number: usize) {
    loop {
        let Some(shared) = store.upgrade() else { return };
        let Some(database) = shared.all().get(number).cloned() else { return };
        if database.is_closed() {
            return;
        }
        match page(&shared, &database).await {
            Ok(full) if full => continue,
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "notices are delivered later"),
        }
        // The store may be dropped while this waits.
        drop(shared);
        let _either = tokio::time::timeout(SWEEP, database.notices.notified()).await;
    }
}

/// Delivers the oldest notices; says whether there may be more.
async fn page(shared: &Shared, database: &Database) -> Result<bool, StoreError> {
    let notices = oldest(database).await?;
    let mut parents: BTreeMap<(i16, &str), i64> = BTreeMap::new();
    for notice in &notices {
        let at = parents.entry((shard(&notice.parent), &notice.parent)).or_insert(notice.at);
        *at = notice.at.min(*at);
    }
    let spots: HashMap<i16, Spot> =
        parents.keys().map(|(shard, _)| (*shard, shared.map.spot(*shard))).collect();
    let mut missed = HashSet::new();
    for (number, other) in shared.all().iter().enumerate() {
        let (mut shards, mut runs, mut times, mut asked) =
            (Vec::new(), Vec::new(), Vec::new(), HashMap::new());
        for ((shard, parent), at) in &parents {
            let spot = spots.get(shard).copied().unwrap_or_default();
            if spot.database == number {
                shards.push(*shard);
                runs.push(*parent);
                times.push(*at);
                asked.insert(*shard, spot);
            }
        }
        if !runs.is_empty() {
            let woken = ask!(other, |conn| conn.execute(WAKE, &[&shards, &runs, &times]).await);
            match woken {
                Ok(_) => missed.extend(missing(shared, asked).await?),
                // The parents in other databases do not wait for it.
                Err(error) if shared.is_sharded() => {
                    tracing::debug!(%error, "notices are delivered later");
                    missed.extend(asked.into_keys());
                }
                Err(error) => return Err(error),
            }
        }
    }
    // The parents of the others are found by the next look.
    let told = || notices.iter().filter(|notice| !missed.contains(&shard(&notice.parent)));
    if told().next().is_some() {
        let shards: Vec<i16> = told().map(|notice| notice.shard).collect();
        let children: Vec<&str> = told().map(|notice| notice.child.as_str()).collect();
        ask!(database, |conn| conn.execute(DELIVERED, &[&shards, &children]).await)?;
    }
    Ok(notices.len() == PAGE && missed.is_empty())
}

/// Of buckets that were asked for those that were not there: they have moved, or are on their way.
async fn missing(shared: &Shared, spots: HashMap<i16, Spot>) -> Result<Vec<i16>, StoreError> {
    let mut missing = Vec::new();
    for (shard, spot) in spots.into_iter().filter(|_| shared.is_sharded()) {
        match shared.standing(spot, shard).await? {
            Standing::Here if spot.settled => continue,
            Standing::Here => shared.follow(shard, Spot { settled: true, ..spot }).await?,
            Standing::Moved(to) => shared.follow(shard, to).await?,
            Standing::Coming => {}
        }
        missing.push(shard);
    }
    Ok(missing)
}

async fn oldest(database: &Database) -> Result<Vec<Notice>, StoreError> {
    let page = i64::try_from(PAGE).unwrap_or(i64::MAX);
    ask!(database, |conn| {
        let rows = conn.query(OLDEST, &[&page]).await?;
        rows.iter()
            .map(|row| {
                Ok(Notice {
                    shard: get(row, 0)?,
                    child: get(row, 1)?,
                    parent: get(row, 2)?,
                    at: get(row, 3)?,
                })
            })
            .collect()
    })
}
