//! Telling parents of the end of their children.
//!
//! Promise: a notice is written with the child's end, and deleted only after the parent was made due, which may happen more
//! than once. So nothing crosses shards in one transaction, and a crash in between delays a notice by about a second. A
//! parent that somebody has locked waits for its notices alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use aether_core::store::StoreError;

use crate::connection::Connection;
use crate::database::{Database, ask};
use crate::error::{Failure, OpError, failure};
use crate::network;
use crate::placement::map::Spot;
use crate::placement::shared::{Shared, Standing};
use crate::row::get;
use crate::shard::shard;

/// How often notices are looked for that another process has left.
const SWEEP: Duration = Duration::from_secs(1);
/// How many are delivered at once.
const PAGE: usize = 500;

const NEXT: &str = "SELECT shard, child, parent, at FROM notices WHERE (shard, child) > ($2::int2, $3::text)
    ORDER BY shard, child LIMIT $1::int8";

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
            network::runtime().spawn(deliver(Arc::downgrade(shared), number));
        }
    }
}

async fn deliver(store: Weak<Shared>, number: usize) {
    let mut behind = Behind::default();
    loop {
        let Some(shared) = store.upgrade() else { return };
        let Some(database) = shared.all().get(number).cloned() else { return };
        if database.is_closed() {
            return;
        }
        match page(&shared, &database, &behind).await {
            Ok(Some(last)) => {
                behind = last;
                continue;
            }
            Ok(None) => behind = Behind::default(),
            Err(error) => tracing::debug!(%error, "notices are delivered later"),
        }
        // The store may be dropped while this waits.
        drop(shared);
        let _either = tokio::time::timeout(SWEEP, database.notices.notified()).await;
    }
}

/// The last notice that was looked at.
#[derive(Clone, Debug)]
struct Behind {
    shard: i16,
    child: String,
}

impl Default for Behind {
    fn default() -> Self {
        Self { shard: i16::MIN, child: String::new() }
    }
}

/// Delivers a page of notices; gives the last of them when there may be more.
async fn page(shared: &Shared, database: &Database, behind: &Behind) -> Result<Option<Behind>, StoreError> {
    let notices = next(database, behind).await?;
    let mut parents: BTreeMap<(i16, &str), i64> = BTreeMap::new();
    for notice in &notices {
        let at = parents.entry((shard(&notice.parent), &notice.parent)).or_insert(notice.at);
        *at = notice.at.min(*at);
    }
    let spots: HashMap<i16, Spot> =
        parents.keys().map(|(shard, _)| (*shard, shared.map.spot(*shard))).collect();
    let (mut missed, mut held) = (HashSet::new(), HashSet::new());
    for (number, other) in shared.all().iter().enumerate() {
        let (mut here, mut asked) = (Vec::new(), HashMap::new());
        for ((shard, parent), at) in &parents {
            let spot = spots.get(shard).copied().unwrap_or_default();
            if spot.database == number {
                here.push((*shard, *parent, *at));
                asked.insert(*shard, spot);
            }
        }
        if !here.is_empty() {
            let woken = ask!(other, |conn| wake(conn, &here, other.options.portable).await);
            match woken {
                Ok(locked) => {
                    held.extend(locked);
                    missed.extend(missing(shared, asked).await?);
                }
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
    let is_told =
        |notice: &&Notice| !missed.contains(&shard(&notice.parent)) && !held.contains(&notice.parent);
    let told = || notices.iter().filter(is_told);
    if told().next().is_some() {
        let shards: Vec<i16> = told().map(|notice| notice.shard).collect();
        let children: Vec<&str> = told().map(|notice| notice.child.as_str()).collect();
        ask!(database, |conn| conn.execute(DELIVERED, &[&shards, &children]).await)?;
    }
    let last = notices.last().filter(|_| notices.len() == PAGE);
    Ok(last.map(|last| Behind { shard: last.shard, child: last.child.clone() }))
}

/// Makes parents due; gives those whose rows others have locked.
async fn wake(
    conn: &Connection,
    parents: &[(i16, &str, i64)],
    portable: bool,
) -> Result<HashSet<String>, OpError> {
    let (mut held, mut work) = (HashSet::new(), vec![parents]);
    while let Some(part) = work.pop() {
        match wake_part(conn, part, portable).await {
            Ok(()) => {}
            Err(OpError::Driver(error)) if matches!(failure(&error), Failure::Slow | Failure::Conflict) => {
                match part {
                    [] => {}
                    [(_, parent, _)] => drop(held.insert((*parent).to_owned())),
                    _ => {
                        let (first, second) = part.split_at(part.len() / 2);
                        work.extend([second, first]);
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(held)
}

async fn wake_part(conn: &Connection, part: &[(i16, &str, i64)], portable: bool) -> Result<(), OpError> {
    let shards: Vec<i16> = part.iter().map(|(shard, ..)| *shard).collect();
    let runs: Vec<&str> = part.iter().map(|(_, run, _)| *run).collect();
    let times: Vec<i64> = part.iter().map(|(.., at)| *at).collect();
    let transaction = conn.begin().await?;
    let woken = async {
        // A server that is only compatible may not know it.
        if !portable {
            transaction.batch("SET LOCAL lock_timeout = 50").await?;
        }
        transaction.execute(WAKE, &[&shards, &runs, &times]).await
    };
    match woken.await {
        Ok(_) => transaction.commit().await,
        Err(error) => {
            // What cannot be undone is a broken connection, which is not used again.
            let _undone = transaction.rollback().await;
            Err(error)
        }
    }
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

async fn next(database: &Database, behind: &Behind) -> Result<Vec<Notice>, StoreError> {
    let page = i64::try_from(PAGE).unwrap_or(i64::MAX);
    ask!(database, |conn| {
        let rows = conn.query(NEXT, &[&page, &behind.shard, &behind.child]).await?;
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
