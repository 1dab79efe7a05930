//! Limits: setting them, what they count, and why a run has no turn.
//!
//! Promise: a limit is changed under the lock of its queue, so that it counts from the next claim on. Starts under a limit of
//! open runs take turns, under the lock of the limit, so that none begins over it. What was admitted keeps the lock until it
//! is written, whoever waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::queue::{LimitPattern, QueuePlace, QueueScope};
use aether_core::store::queueing::Picker;
use aether_core::store::{Limit, LimitKind, QueuePosition, StoreError};
use futures_util::future::{Either, select};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio_postgres::Row;

use crate::connection::{Param, Transaction};
use crate::database::{Database, ask};
use crate::error::{LostAnswer, OpError, gone};
use crate::network;
use crate::queues::lanes::{LaneState, Lanes};
use crate::queues::{PAUSED, sql};
use crate::row::{self, get};
use crate::shard::shard;

/// The row of a queue, which a claim locks.
const QUEUE: &str =
    "INSERT INTO queues(queue, time, served, looked) VALUES ($1::text, 0, 0, '') ON CONFLICT DO NOTHING";

const PUT: &str = "
INSERT INTO limits(pattern, kind, queue, n, per) VALUES ($1::text, $2::text, $3::text, $4::int8, $5::int8)
ON CONFLICT (pattern, kind) DO UPDATE SET n = excluded.n, per = excluded.per";

const REMOVE: &str = "DELETE FROM limits WHERE pattern = $1::text AND kind = $2::text";

/// A line feed ends the pattern in the names of its counters.
const REMOVE_STARTS: &str =
    "DELETE FROM starts WHERE counter >= $1::text || chr(10) AND counter < $1 || chr(11)";

/// What the former limit kept back is looked at again.
const LOOK_AGAIN: &str = "UPDATE lanes SET state = 0, until = NULL WHERE queue = $1::text AND state = 2";

const ALL: &str = "SELECT pattern, kind, n, per FROM limits ORDER BY pattern, kind";

const OF: &str =
    "SELECT pattern, kind, n, per FROM limits WHERE queue = ANY($1::text[]) ORDER BY pattern, kind";

const OPEN: &str =
    "SELECT pattern, kind, n, per FROM limits WHERE queue = $1::text AND kind = 'open' ORDER BY pattern";

/// Locks them by a change: who waits for it at an isolation that keeps its snapshot is told so, and looks again.
const LOCK_BY_CHANGE: &str = "UPDATE limits SET n = n WHERE queue = $1::text AND kind = 'open'";

const POSITION: &str = "
SELECT r.queue, r.queue_key, r.begun, d.ready, (SELECT count(*) FROM (SELECT 1 FROM unnest(ARRAY[true, false]) AS b(begun)
        CROSS JOIN LATERAL (SELECT w.code FROM due w WHERE w.queue = r.queue AND w.queue_key = r.queue_key
            AND w.begun = b.begun AND w.ready IS NOT NULL AND (w.rank, w.place) < (d.rank, d.place) LIMIT $3::int8) a
        LIMIT $3) ahead)
FROM runs r LEFT JOIN due d ON d.shard = r.shard AND d.run = r.id AND r.owner IS NULL AND d.ready IS NOT NULL
WHERE r.shard = $1::int2 AND r.id = $2::text";

/// A limit; `None` for one of a kind that this build does not know.
fn read(found: &Row) -> Result<Option<Limit>, OpError> {
    let (pattern, kind): (String, String) = (get(found, 0)?, get(found, 1)?);
    let per: Option<i64> = get(found, 3)?;
    let per = per.map(|per| row::nat(per, "span of a limit")).transpose()?.map(Duration::from_micros);
    let pattern = LimitPattern::new(pattern).map_err(|error| OpError::Row(error.to_string()))?;
    let known = LimitKind::parse(&kind, row::nat32(get(found, 2)?, "number of a limit")?, per);
    if known.is_none() {
        tracing::warn!(%pattern, kind, "a limit of a newer build is left out");
    }
    Ok(known.map(|kind| Limit { pattern, kind }))
}

fn read_all(rows: &[Row]) -> Result<Vec<Limit>, OpError> {
    rows.iter().filter_map(|found| read(found).transpose()).collect()
}

/// The limits of queues.
pub(super) async fn of(transaction: &Transaction<'_>, queues: &[String]) -> Result<Vec<Limit>, OpError> {
    read_all(&transaction.query(OF, &[&queues]).await?)
}

/// How many runs of each scope there are, counted up to its number.
pub(super) async fn counted(
    transaction: &Transaction<'_>,
    sql: &str,
    scopes: &BTreeMap<QueueScope, u64>,
) -> Result<BTreeMap<QueueScope, u64>, OpError> {
    if scopes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let queues: Vec<&str> = scopes.keys().map(|scope| scope.queue.as_str()).collect();
    let prefixes: Vec<&str> = scopes.keys().map(|scope| scope.prefix.as_str()).collect();
    let most: Vec<i64> = scopes.values().map(|most| row::int(*most)).collect();
    let rows = transaction.query(sql, &[&queues, &prefixes, &most]).await?;
    let count = |found: &Row| {
        let scope = QueueScope { queue: get(found, 0)?, prefix: get(found, 1)? };
        Ok((scope, row::nat(get(found, 2)?, "number of runs")?))
    };
    rows.iter().map(count).collect()
}

/// The right to create one run, for as long as it is held.
pub(crate) enum Admission<T> {
    /// The run was created, or not, as the caller says.
    Admitted(T),
    /// A limit of open runs is reached.
    Over { limit: Limit, open: u64 },
}

impl Database {
    /// Sets a limit in place of the one of its pattern and kind.
    pub(crate) async fn put_limit(&self, limit: &Limit) -> Result<(), StoreError> {
        let Limit { pattern, kind } = limit;
        let (queue, per) = (pattern.queue(), kind.per().map(micros));
        let (pattern, name, n) = (pattern.as_str(), kind.name(), i64::from(kind.number()));
        let params: [Param<'_>; 5] = [&pattern, &name, &queue, &n, &per];
        ask!(self, |conn| {
            conn.execute(QUEUE, &[&queue]).await?;
            let transaction = conn.begin_for(PAUSED).await?;
            transaction.query(sql::LOCK_NAMED, &[&vec![queue]]).await?;
            transaction.execute(PUT, &params).await?;
            transaction.execute(LOOK_AGAIN, &[&queue]).await?;
            transaction.commit().await
        })
    }

    /// Deletes a limit; says whether it was there.
    pub(crate) async fn remove_limit(&self, pattern: &LimitPattern, kind: &str) -> Result<bool, StoreError> {
        let (queue, pattern) = (pattern.queue(), pattern.as_str());
        let lost = LostAnswer::default();
        let removed = ask!(self, |conn| {
            let transaction = conn.begin_for(PAUSED).await?;
            transaction.query(sql::LOCK_NAMED, &[&vec![queue]]).await?;
            let removed = transaction.execute(REMOVE, &[&pattern, &kind]).await?;
            if kind == "starts" {
                transaction.execute(REMOVE_STARTS, &[&pattern]).await?;
            }
            transaction.execute(LOOK_AGAIN, &[&queue]).await?;
            lost.noting(transaction.commit().await)?;
            Ok(removed > 0)
        })?;
        // The try before may have removed it.
        Ok(removed || lost.happened())
    }

    /// All limits, by pattern and kind.
    pub(crate) async fn limits(&self) -> Result<Vec<Limit>, StoreError> {
        ask!(self, |conn| read_all(&conn.query(ALL, &[]).await?))
    }

    /// Runs `create` unless a limit of open runs is reached, in a task of its own: a creation that is with the writer is under
    /// way whoever waits for it, and is not counted before it is written. Who gives up before it was begun has begun nothing.
    pub(crate) async fn admitted<T: Send + 'static>(
        self: Arc<Self>,
        place: QueuePlace,
        create: impl Future<Output = T> + Send + 'static,
    ) -> Result<Admission<T>, StoreError> {
        let name = self.name.clone();
        let (mut told, answer) = oneshot::channel();
        // Not among the caller's tasks, which may end before.
        network::runtime().spawn(async move {
            let has_begun = AtomicBool::new(false);
            let create = async {
                has_begun.store(true, Ordering::Relaxed);
                create.await
            };
            let admitted = {
                let given_up = async {
                    told.closed().await;
                    if has_begun.load(Ordering::Relaxed) {
                        std::future::pending::<()>().await;
                    }
                };
                let admitted = self.admit(&place, create);
                match select(std::pin::pin!(admitted), std::pin::pin!(given_up)).await {
                    Either::Left((admitted, _)) => Some(admitted),
                    Either::Right(_) => None,
                }
            };
            if let Some(admitted) = admitted {
                let _asker_gone = told.send(admitted);
            }
        });
        answer.await.unwrap_or_else(|_| Err(gone(&name)))
    }

    /// Runs `create` unless a limit of open runs is reached. Meanwhile no other run is created under these limits.
    async fn admit<T>(
        &self,
        place: &QueuePlace,
        create: impl Future<Output = T>,
    ) -> Result<Admission<T>, StoreError> {
        let limits = ask!(self, |conn| read_all(&conn.query(OPEN, &[&place.queue]).await?))?;
        if !limits.iter().any(|limit| limit.pattern.scope(place).is_some()) {
            return Ok(Admission::Admitted(create.await));
        }
        // Of this process, one at a time waits in the database.
        let asking = self.asking();
        let _alone = asking.waits_for("turn to start a run of a queue", self.admission.lock()).await?;
        let mut create = std::pin::pin!(Some(create));
        ask!(at asking, |conn| {
            let transaction = conn.begin_for(self.creation_limit()).await?;
            let rows = match self.options.portable {
                true => {
                    transaction.execute(LOCK_BY_CHANGE, &[&place.queue]).await?;
                    transaction.query(OPEN, &[&place.queue]).await?
                }
                false => transaction.query(&format!("{OPEN} FOR UPDATE"), &[&place.queue]).await?,
            };
            let limits = read_all(&rows)?;
            for limit in limits {
                let LimitKind::Open(n) = limit.kind else { continue };
                let Some(scope) = limit.pattern.scope(place) else { continue };
                let n = u64::from(n);
                let open = counted(&transaction, &sql::OPEN, &BTreeMap::from([(scope, n)])).await?;
                let open = open.into_values().next().unwrap_or(0).min(n);
                if open >= n {
                    transaction.rollback().await?;
                    return Ok(Admission::Over { limit, open });
                }
            }
            let Some(creating) = create.as_mut().as_pin_mut() else {
                return Err(OpError::Row("a run was to be created twice".into()));
            };
            let created = creating.await;
            create.set(None);
            // Nothing is changed here: whether the lock is released by a commit or a lost connection is the same, but for
            // who waits with a snapshot.
            let _only_locks = match self.options.portable {
                true => transaction.commit().await,
                false => transaction.rollback().await,
            };
            Ok(Admission::Admitted(created))
        })
    }

    /// Why a run has no turn; `None` where it does not wait for one.
    pub(crate) async fn queue_position(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> Result<Option<QueuePosition>, StoreError> {
        ask!(self, |conn| {
            let transaction = conn.begin().await?;
            let params: [Param<'_>; 3] =
                [&shard(run.as_str()), &run.as_str(), &row::int(QueuePosition::MOST)];
            let rows = transaction.query(POSITION, &params).await?;
            let position = match rows.first() {
                None => Err(StoreError::UnknownRun { run: run.clone() }.into()),
                Some(found) => position(&transaction, found, now).await,
            };
            transaction.rollback().await?;
            position
        })
    }
}

async fn position(
    transaction: &Transaction<'_>,
    found: &Row,
    now: Timestamp,
) -> Result<Option<QueuePosition>, OpError> {
    let (Some(queue), Some(since)): (Option<String>, Option<i64>) = (get(found, 0)?, get(found, 3)?) else {
        return Ok(None);
    };
    let place = QueuePlace { queue, key: get(found, 1)?, priority: 0 };
    let limits = of(transaction, std::slice::from_ref(&place.queue)).await?;
    let mut lanes = Lanes { now: row::micros(now), ..Lanes::default() };
    let lane = BTreeMap::from([(place.key.clone(), LaneState::default())]);
    lanes.queues.entry(place.queue.clone()).or_default().lanes = lane;
    lanes.uncounted = lanes.places();
    lanes.count(transaction, &limits, 0).await?;
    let limit = Picker::new(&limits, now).limit_of(&mut lanes, &place, !get::<bool>(found, 2)?)?;
    Ok(Some(QueuePosition {
        since: row::time(since)?,
        ahead: row::nat(get(found, 4)?, "runs ahead")?,
        limit,
    }))
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
