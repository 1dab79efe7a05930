//! Deleting runs that have ended.
//!
//! Promise: an end is for good, and so is that of a parent: what was looked at before the deletion still holds when it is
//! written. Store-wide business keys are sealed first, so that they stay taken whatever comes between. A run goes in one
//! transaction: it is there whole or not at all. One that has many rows goes in pieces in it, each with the time of a statement.

use std::sync::LazyLock;

use jiff::Timestamp;
use tokio_postgres::Row;

use aether_core::contract::Status;
use aether_core::id::RunId;
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::{EndedRuns, Purged, RunRecord, StoreError};

use crate::connection::{Connection, Param};
use crate::database::{Database, ask};
use crate::error::{LostAnswer, OpError};
use crate::ledger::{ENTRY, entry};
use crate::pieces::Rows;
use crate::placement::search::at;
use crate::placement::shared::Shared;
use crate::readable::Page;
use crate::row::{self, get};
use crate::runs::{record, select};
use crate::shard::shard;

/// Of each status ($1) the runs that ended before a time ($2), behind a place ($3). A run is created before it ends, so that
/// runs that were created long after the time need no look: neither do those whose place is a day behind that of the newest
/// run that was created within a day of it.
const ENDED: &str = "(SELECT f.* FROM unnest($1::int2[], $2::int8[]) AS b(status, before)
        CROSS JOIN LATERAL (SELECT n.place + (86400000000::int8 << 12) AS last FROM runs n
            WHERE n.created_at < b.before + 86400000000 ORDER BY n.created_at DESC LIMIT 1) n
        CROSS JOIN LATERAL (SELECT e.shard, e.id, e.place FROM runs e
            WHERE (e.status, e.place) > (b.status, $3::int8) AND (e.status, e.place) <= (b.status, n.last)
                AND e.ended_at < b.before
            ORDER BY e.status, e.place LIMIT $4::int8) f
        ORDER BY f.place LIMIT $4) c JOIN runs r ON r.shard = c.shard AND r.id = c.id";

/// The rows that hold store-wide keys.
const HELD: &str =
    "FROM ledger WHERE shard = $1::int2 AND run = $2::text AND store_wide AND business_key IS NOT NULL";

/// Deletes the run of this place. Another one of the same id has another place.
const DELETE: &str = "
WITH r AS (DELETE FROM runs WHERE shard = $1::int2 AND id = $2::text AND place = $3::int8 AND status > 2
        RETURNING shard, id),
    a AS (DELETE FROM journal x USING r WHERE x.shard = r.shard AND x.run = r.id),
    b AS (DELETE FROM ledger x USING r WHERE x.shard = r.shard AND x.run = r.id),
    c AS (DELETE FROM due x USING r WHERE x.shard = r.shard AND x.run = r.id),
    d AS (DELETE FROM inbox x USING r WHERE x.shard = r.shard AND x.run = r.id),
    e AS (DELETE FROM waits x USING r WHERE x.shard = r.shard AND x.run = r.id),
    f AS (DELETE FROM effects x USING r WHERE x.shard = r.shard AND x.run = r.id),
    g AS (DELETE FROM blobs x USING r WHERE x.shard = r.shard AND x.run = r.id),
    h AS (DELETE FROM snapshots x USING r WHERE x.shard = r.shard AND x.run = r.id),
    i AS (DELETE FROM progress x USING r WHERE x.shard = r.shard AND x.run = r.id),
    j AS (DELETE FROM labels x USING r WHERE x.shard = r.shard AND x.run = r.id),
    k AS (DELETE FROM lost x USING r WHERE x.shard = r.shard AND x.run = r.id),
    l AS (DELETE FROM notices x USING r WHERE x.shard = r.shard AND x.child = r.id),
    m AS (DELETE FROM streams x USING r WHERE x.shard = r.shard AND x.run = r.id)
SELECT 1 FROM r";

/// Of what a run may have many rows, with how many go at once: large values, and those of the other tables.
const LARGE: [Rows; 6] = [
    Rows { table: "blobs", text: Some("hash"), number: None, only: None, piece: 8 },
    Rows { table: "effects", text: Some("key"), number: None, only: None, piece: 100 },
    Rows { table: "journal", text: None, number: Some("frame"), only: None, piece: 500 },
    Rows { table: "ledger", text: Some("key"), number: None, only: None, piece: 500 },
    Rows { table: "inbox", text: None, number: Some("seq"), only: None, piece: 500 },
    Rows { table: "streams", text: Some("stream"), number: Some("seq"), only: None, piece: 500 },
];

static IS_LARGE: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {}", LARGE.map(|rows| rows.are_many()).join(" OR ")));

/// Locks the run of this place: what is deleted by its id is its own.
const LOCK: &str = "SELECT 1 FROM runs WHERE shard = $1::int2 AND id = $2::text AND place = $3::int8 AND status > 2 FOR UPDATE";

/// What a run's row says about whether it may be deleted.
struct Head {
    status: Status,
    place: i64,
    created_at: i64,
    parent: Option<RunId>,
}

/// See [`Store::purge`](aether_core::store::Store::purge). Parent and keys may be in other databases than the run.
pub(crate) async fn purge(
    shared: &Shared,
    run: &RunId,
    created_at: Option<Timestamp>,
) -> Result<Purged, StoreError> {
    let Some(head) = at!(shared, run.as_str(), |db| db.head(run))? else { return Ok(Purged::Unknown) };
    if created_at.is_some_and(|created_at| row::micros(created_at) != head.created_at) {
        return Ok(Purged::Unknown);
    }
    if !head.status.is_terminal() {
        return Ok(Purged::Open(head.status));
    }
    if let Some(parent) = &head.parent {
        let status = at!(shared, parent.as_str(), |db| db.head(parent))?.map(|parent| parent.status);
        if status.is_some_and(|status| !status.is_terminal()) {
            return Ok(Purged::ParentOpen(parent.clone()));
        }
    }
    for row in at!(shared, run.as_str(), |db| db.store_wide_rows(run))? {
        let Some(key) = &row.business_key else { continue };
        at!(shared, key, |db| db.seal(&row))?;
    }
    let lost = LostAnswer::default();
    let deleted = at!(shared, run.as_str(), |db| db.delete(run, head.place, &lost))?;
    // Where the answer to a try was lost, that one may have deleted it; and then it was not moved.
    Ok(if lost.happened() { Purged::Deleted } else { deleted })
}

impl Database {
    /// See [`Store::ended`](aether_core::store::Store::ended).
    pub(crate) async fn ended(&self, query: &EndedRuns) -> Result<Vec<(u64, RunRecord)>, StoreError> {
        let terminal = query.before.iter().filter(|(status, _)| status.is_terminal());
        let mut before: Vec<_> =
            terminal.map(|(status, before)| (row::status_number(*status), row::micros(*before))).collect();
        // The latest time of each status.
        before.sort_unstable_by(|a, b| b.cmp(a));
        before.dedup_by_key(|(status, _)| *status);
        let (statuses, times): (Vec<i16>, Vec<i64>) = before.into_iter().unzip();
        let after = row::int(query.after);
        let sql = select("", ENDED) + " ORDER BY c.place";
        let ended = |row: &Row| record(row).map(|run| (run.place.number(), run));
        ask!(self, |conn| {
            let mut page = Page::of(query.limit);
            loop {
                let params: [Param<'_>; 4] = [&statuses, &times, &after, &page.rows()];
                if let Some(found) = page.read(&conn.query(&sql, &params).await?, ended) {
                    return Ok(found);
                }
            }
        })
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        let sql =
            "SELECT status, place, parent, created_at FROM runs WHERE shard = $1::int2 AND id = $2::text";
        ask!(self, |conn| {
            let found = conn.query_opt(sql, &[&shard(run.as_str()), &run.as_str()]).await?;
            let Some(row) = found else { return Ok(None) };
            let parent = get::<Option<String>>(&row, 2)?.map(row::run_id).transpose()?;
            let (status, place, created_at) = (row::status(get(&row, 0)?)?, get(&row, 1)?, get(&row, 3)?);
            Ok(Some(Head { status, place, created_at, parent }))
        })
    }

    async fn store_wide_rows(&self, run: &RunId) -> Result<Vec<LedgerEntry>, StoreError> {
        let sql = format!("SELECT {ENTRY} {HELD}");
        ask!(self, |conn| {
            let rows = conn.query(&sql, &[&shard(run.as_str()), &run.as_str()]).await?;
            rows.iter().map(|row| entry(row, run)).collect()
        })
    }

    /// [`Purged::Unknown`] where it is not in this database, also where a try did that whose answer was lost.
    pub(crate) async fn delete(
        &self,
        run: &RunId,
        place: i64,
        lost: &LostAnswer,
    ) -> Result<Purged, StoreError> {
        let (of, run) = (shard(run.as_str()), run.as_str());
        let what: [Param<'_>; 3] = [&of, &run, &place];
        ask!(self, |conn| {
            let is_large = conn.query_opt(&IS_LARGE, &[&of, &run]).await?;
            let deleted = match is_large.map_or(Ok(false), |row| get(&row, 0))? {
                false => lost.noting(conn.query_opt(DELETE, &what).await)?.is_some(),
                true => delete_large(conn, (of, run), &what, lost).await?,
            };
            Ok(if deleted { Purged::Deleted } else { Purged::Unknown })
        })
    }
}

/// Deletes a run that has many rows; `false` where it is not there.
async fn delete_large(
    conn: &Connection,
    of: (i16, &str),
    what: &[Param<'_>],
    lost: &LostAnswer,
) -> Result<bool, OpError> {
    let transaction = conn.begin().await?;
    let deleted = async {
        if transaction.query(LOCK, what).await?.is_empty() {
            return Ok(false);
        }
        for rows in LARGE {
            rows.delete(&transaction, of, 0).await?;
        }
        Ok(!transaction.query(DELETE, what).await?.is_empty())
    };
    match deleted.await {
        Ok(true) => lost.noting(transaction.commit().await).map(|()| true),
        other => {
            transaction.rollback().await?;
            other
        }
    }
}
