//! When runs are due: the next time, releasing a run, and rows that nothing needs.
//!
//! Promise: a row of `due` says "look at this run then". A run that a worker holds needs none; an open run without an owner
//! and without a row is woken by messages alone. A row too many costs a look, a row too few would cost a run its wake-up:
//! none is deleted of a run that is open and not parked.

use aether_core::contract::Status;
use aether_core::id::{Epoch, RunId, WorkerId};
use aether_core::store::StoreError;
use jiff::Timestamp;
use std::sync::LazyLock;

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::row::{self, get};
use crate::runs::{codes_in, codes_of};
use crate::shard::shard;

/// The first row that a claim could take, of each code.
static NEXT_WAKE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH RECURSIVE {}, {}
        SELECT least((SELECT min(w.wake_at) FROM codes k CROSS JOIN LATERAL (SELECT d.wake_at FROM due d
            CROSS JOIN LATERAL (SELECT o.owner, o.status, o.parked FROM runs o
                WHERE o.shard = d.shard AND o.id = d.run OFFSET 0) r
            WHERE d.code = k.code AND d.queue IS NULL AND r.owner IS NULL AND r.status < 3 AND NOT r.parked
            ORDER BY d.wake_at LIMIT 1) w
        WHERE k.code IS NOT NULL),
        (SELECT min(w.wake_at) FROM queues k CROSS JOIN LATERAL (SELECT d.wake_at FROM due d
            CROSS JOIN LATERAL (SELECT o.owner, o.status, o.parked FROM runs o
                WHERE o.shard = d.shard AND o.id = d.run OFFSET 0) r
            WHERE d.queue = k.queue AND d.ready IS NULL AND r.owner IS NULL AND r.status < 3 AND NOT r.parked
            ORDER BY d.wake_at LIMIT 1) w),
        (SELECT min(w.lapses_at) FROM lapsing k CROSS JOIN LATERAL (SELECT r.lapses_at FROM runs r
            WHERE r.code = k.code AND r.lapses_at IS NOT NULL AND r.owner IS NULL AND NOT r.parked
            ORDER BY r.lapses_at LIMIT 1) w WHERE k.code IS NOT NULL))",
        codes_in("due", "f.queue IS NULL"),
        codes_of("lapsing", "runs", "f.lapses_at IS NOT NULL AND f.owner IS NULL")
    )
});

/// Only the worker that holds the run at this epoch releases it; once, so that a second try moves no wake-up that came
/// meanwhile. A standby that was promoted without the last commits gives an epoch out again, so the owner is compared, too:
/// in a way of which the key, and not the index of owners, finds the run.
const RELEASE: &str = "
WITH freed AS (UPDATE runs SET owner = NULL, lapses_at = CASE WHEN lapses_at IS NOT NULL THEN greatest(lapses_at, $4::int8) END
        WHERE shard = $1::int2 AND id = $2::text AND epoch = $3::int8
        AND owner IS NOT DISTINCT FROM $5::text AND status < 3 RETURNING shard, id, code, queue),
    woken AS (INSERT INTO due(shard, run, wake_at, code, seq, notified, queue)
        SELECT shard, id, $4, code, 0, false, queue FROM freed
        ON CONFLICT (shard, run) DO UPDATE SET wake_at = excluded.wake_at, code = excluded.code)
SELECT 1 FROM runs WHERE shard = $1 AND id = $2";

/// Runs that wait for nothing and are due later than a time ($2): those in the middle of their work that no worker holds, and
/// those that are to begin at once and were created later than that time.
const HASTEN: &str = "
WITH free AS MATERIALIZED (
        (SELECT r.shard, r.id FROM runs r WHERE r.status = $3::int2 AND r.owner IS NULL AND NOT r.parked LIMIT 10000)
        UNION ALL
        (SELECT r.shard, r.id FROM runs r WHERE r.created_at > $2::int8 AND r.status = $4::int2 AND r.owner IS NULL
            AND NOT r.parked AND r.queue IS NULL AND (r.terms IS NULL OR r.terms::json ->> 'not_before' IS NULL) LIMIT 10000)),
    late AS MATERIALIZED (SELECT f.shard, f.id FROM free f
        CROSS JOIN LATERAL (SELECT d.wake_at FROM due d WHERE d.shard = f.shard AND d.run = f.id OFFSET 0) d
        WHERE d.wake_at > $2 LIMIT 500),
    hastened AS (UPDATE due d SET wake_at = $1::int8 FROM late l WHERE d.shard = l.shard AND d.run = l.id RETURNING 1)
SELECT count(*) FROM hastened";

/// Rows at the low end of the index, which every claim walks over, of runs that are gone, have ended or are parked. A parked
/// run is claimed before it is parked no more, and that claim deletes its row: so the row that is deleted here is of no use
/// whenever the deletion takes effect.
fn tidy_sql(of: &str) -> String {
    format!(
        "
DELETE FROM due d USING (
    SELECT q.shard, q.run FROM unnest($1::text[]) AS k(code)
    CROSS JOIN LATERAL (SELECT f.shard, f.run FROM due f
        WHERE f.code = k.code AND f.wake_at <= $2::int8 AND f.queue {of} ORDER BY f.wake_at LIMIT 1000) q
    LEFT JOIN runs r ON r.shard = q.shard AND r.id = q.run
    WHERE r.id IS NULL OR r.status > 2 OR (r.parked AND r.owner IS NULL)) s
WHERE d.shard = s.shard AND d.run = s.run"
    )
}

static TIDY: LazyLock<[String; 2]> = LazyLock::new(|| [tidy_sql("IS NULL"), tidy_sql("IS NOT NULL")]);

impl Database {
    /// See [`Store::next_wake`](aether_core::store::Store::next_wake).
    pub(crate) async fn next_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        ask!(self, |conn| {
            let found = conn.query_opt(NEXT_WAKE.as_str(), &[]).await?;
            let at: Option<i64> = found.map_or(Ok(None), |row| get(&row, 0))?;
            at.map(row::time).transpose()
        })
    }

    /// See [`Store::release`](aether_core::store::Store::release).
    pub(crate) async fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> Result<(), StoreError> {
        let (worker, wake_at) = (worker.as_str(), row::micros(wake_at));
        let is_known = self.release_row(worker, run.as_str(), row::int(epoch), wake_at).await?;
        if is_known { Ok(()) } else { Err(StoreError::UnknownRun { run: run.clone() }) }
    }

    /// See [`Store::hasten`](aether_core::store::Store::hasten).
    pub(crate) async fn hasten(&self, now: Timestamp, beyond: Timestamp) -> Result<usize, StoreError> {
        let (now, beyond) = (row::micros(now), row::micros(beyond));
        let (running, pending) = (row::status_number(Status::Running), row::status_number(Status::Pending));
        ask!(self, |conn| {
            let found = conn.query_opt(HASTEN, &[&now, &beyond, &running, &pending]).await?;
            let hastened: i64 = found.map_or(Ok(0), |row| get(&row, 0))?;
            Ok(usize::try_from(hastened).unwrap_or_default())
        })
    }

    /// As [`Database::release`], of a run that may not be readable; says whether it is there.
    pub(crate) async fn release_row(
        &self,
        worker: &str,
        run: &str,
        epoch: i64,
        wake_at: i64,
    ) -> Result<bool, StoreError> {
        let params: [Param<'_>; 5] = [&shard(run), &run, &epoch, &wake_at, &worker];
        ask!(self, |conn| Ok(conn.query_opt(RELEASE, &params).await?.is_some()))
    }

    /// Deletes rows that nothing needs, some at a time.
    pub(crate) async fn tidy(&self, codes: &[&str], now: i64) -> Result<(), StoreError> {
        ask!(self, |conn| {
            for sql in &*TIDY {
                conn.execute(sql, &[&codes, &now]).await?;
            }
            Ok(())
        })
    }
}
