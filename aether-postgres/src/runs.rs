//! Runs as they are listed: one, many, and those of other code.
//!
//! Promise: each statement begins at an index, and reads only what its page needs; only id prefixes and times of creation
//! are sorted. What a run's row does not hold is read beside it: where its journal ends, and when it is due.

use jiff::Timestamp;
use tokio_postgres::Row;

use aether_core::id::{CodeId, RunId};
use aether_core::store::{
    Cursor, DamagedRun, ForeignRuns, QueueState, RunFilter, RunRecord, RunRow, SilentWorker, StoreError,
};

use crate::connection::{Connection, Param};
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::list::Query;
use crate::readable::readable;
use crate::row::{self, get};
use crate::shard::shard;

/// The columns of `runs AS r`, in the order [`record`] reads them. Where the journal ends and when the run is due come
/// next: [`BESIDE`].
pub(crate) const OWN: &str = "r.id, r.workflow, r.version, r.code, r.parked, r.status, r.digest, r.parent, r.created_at, \
     r.owner, r.labels, r.traceparent, r.place, r.terms, r.started_at";

/// The rest of a [`RunRecord`], from [`BESIDE_FROM`]. A run that a worker holds needs no row in `due`: it is due from its
/// creation on, unless its worker has suspended it and keeps it. A frame of no events is the fence of a claim.
const BESIDE: &str = "j.at, j.next, j.epoch, CASE WHEN r.status > 2 THEN NULL WHEN r.owner IS NULL THEN d.wake_at \
     WHEN r.status < 2 THEN least(r.created_at, d.wake_at) WHEN d.wake_at IS NULL AND j.count = 0 THEN r.created_at \
     ELSE d.wake_at END, CASE WHEN r.owner IS NULL THEN d.ready END";

const BESIDE_FROM: &str = "LEFT JOIN LATERAL (SELECT l.at, l.position + l.count AS next, l.epoch, l.count FROM journal l \
     WHERE l.shard = r.shard AND l.run = r.id ORDER BY l.frame DESC LIMIT 1) j ON true \
     LEFT JOIN due d ON d.shard = r.shard AND d.run = r.id";

/// The select list and the tables of whole records: `from` names the runs, as `runs r`; `more` columns may follow.
pub(crate) fn select(more: &str, from: &str) -> String {
    format!("SELECT {OWN}, {BESIDE}{more} FROM {from} {BESIDE_FROM}")
}

/// Reads the columns of [`select`].
pub(crate) fn record(row: &Row) -> Result<RunRecord, OpError> {
    let id = row::run_id(get(row, 0)?)?;
    let next: Option<i64> = get(row, 16)?;
    let (Some(at), Some(next), Some(epoch)) = (get(row, 15)?, next, get(row, 17)?) else {
        return Err(OpError::Row(format!("run `{id}` has no journal")));
    };
    Ok(RunRecord {
        id,
        workflow: get(row, 1)?,
        version: row::nat32(get(row, 2)?, "version")?,
        code: CodeId::from(get::<String>(row, 3)?),
        parked: get(row, 4)?,
        status: row::status(get(row, 5)?)?,
        digest: row::digest(get(row, 6)?)?,
        parent: get::<Option<String>>(row, 7)?.map(row::run_id).transpose()?,
        created_at: row::time(get(row, 8)?)?,
        owner: get::<Option<String>>(row, 9)?.map(row::worker_id),
        labels: row::labels(get(row, 10)?)?,
        traceparent: get(row, 11)?,
        place: Cursor::new(row::nat(get(row, 12)?, "place")?),
        updated_at: row::time(at)?,
        next: row::nat(next, "position")?,
        epoch: row::nat(epoch, "epoch")?,
        wake_at: get::<Option<i64>>(row, 18)?.map(row::time).transpose()?,
        terms: get::<Option<String>>(row, 13)?.map(row::terms).transpose()?.unwrap_or_default(),
        queue: QueueState {
            started_at: get::<Option<i64>>(row, 14)?.map(row::time).transpose()?,
            waits_since: get::<Option<i64>>(row, 19)?.map(row::time).transpose()?,
        },
    })
}

/// A run, or why it cannot be read.
type Readable = Result<RunRecord, DamagedRun>;

/// Rows that are read at once where all are.
const ROWS: usize = 1_000;

/// The columns of [`OWN`] in which owner and place stand.
pub(crate) const OWNER: usize = 9;
const PLACE: usize = 12;

/// The column of [`BESIDE`] in which the epoch stands.
pub(crate) const EPOCH: usize = 17;

/// How many columns [`record`] reads: others may follow.
pub(crate) const COLUMNS: usize = 20;

/// A number of rows as `LIMIT` takes it: all for 0.
pub(crate) fn limit(rows: usize) -> Option<i64> {
    (rows > 0).then(|| i64::try_from(rows).unwrap_or(i64::MAX))
}

/// As [`record`], of a row that may be damaged.
fn run_row(row: &Row) -> Result<RunRow, OpError> {
    let (place, id) = (Cursor::new(row::nat(get(row, 12)?, "place")?), get(row, 0)?);
    let run = match record(row) {
        Err(OpError::Row(reason)) => Err(reason),
        read => Ok(read?),
    };
    // Where the journal ends is read in the journal.
    Ok(RunRow { place, id, run, tip: None })
}

impl Database {
    /// One run.
    pub(crate) async fn run_record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        let sql = select("", "runs r") + " WHERE r.shard = $1::int2 AND r.id = $2::text";
        ask!(self, |conn| {
            let found = conn.query_opt(&sql, &[&shard(run.as_str()), &run.as_str()]).await?;
            found.as_ref().map(record).transpose()
        })
    }

    /// The runs that a filter lets through, newest first. A damaged one is left out, and the next one takes its place.
    pub(crate) async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        let (mut filter, mut found) = (filter.clone(), Vec::new());
        loop {
            let (rows, last) = self.page(&filter).await?;
            let mut left_out = 0;
            for row in rows {
                match row {
                    Ok(run) => found.push(run),
                    Err(DamagedRun { id, reason }) => {
                        left_out += 1;
                        tracing::warn!(id, %reason, "a damaged run is left out of a list");
                    }
                }
            }
            match last {
                Some(last) if left_out > 0 && filter.limit > 0 => {
                    (filter.after, filter.limit) = (Some(last), left_out);
                }
                _ => return Ok(found),
            }
        }
    }

    /// The runs that [`Database::runs`] leaves out.
    pub(crate) async fn damaged(&self, filter: &RunFilter) -> Result<Vec<DamagedRun>, StoreError> {
        let (mut filter, mut left, mut found) = (filter.clone(), filter.limit, Vec::new());
        if left == 0 {
            (filter.limit, left) = (ROWS, usize::MAX);
        }
        loop {
            let (rows, last) = self.page(&filter).await?;
            left = left.saturating_sub(rows.iter().filter(|row| row.is_ok()).count());
            found.extend(rows.into_iter().filter_map(Result::err));
            match last {
                Some(last) if left > 0 => (filter.after, filter.limit) = (Some(last), left.min(ROWS)),
                _ => return Ok(found),
            }
        }
    }

    /// One page of rows, and the place of the last.
    async fn page(&self, filter: &RunFilter) -> Result<(Vec<Readable>, Option<Cursor>), StoreError> {
        let query = Query::list(filter);
        let from = format!("({}) c JOIN runs r ON r.shard = c.shard AND r.id = c.id", query.sql);
        let sql = format!("{} ORDER BY c.place DESC", select("", &from));
        ask!(self, |conn| {
            let rows = conn.query(&sql, &query.values.params()).await?;
            let place = rows.last().map(|last| row::nat(get(last, PLACE)?, "place").map(Cursor::new));
            let read = |row: &Row| match record(row) {
                Err(OpError::Row(reason)) => {
                    Ok(Err(DamagedRun { id: get::<String>(row, 0).unwrap_or_default(), reason }))
                }
                read => read.map(Ok),
            };
            Ok((rows.iter().map(read).collect::<Result<_, OpError>>()?, place.transpose()?))
        })
    }

    /// As [`Database::runs`], with the rows that cannot be read.
    pub(crate) async fn run_rows(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let query = Query::list(filter);
        let from = format!("({}) c JOIN runs r ON r.shard = c.shard AND r.id = c.id", query.sql);
        let sql = format!("{} ORDER BY c.place DESC", select("", &from));
        ask!(self, |conn| conn.query(&sql, &query.values.params()).await?.iter().map(run_row).collect())
    }

    /// How many runs a filter lets through.
    pub(crate) async fn count(&self, filter: &RunFilter) -> Result<u64, StoreError> {
        let query = Query::count(filter);
        ask!(self, |conn| {
            let found = conn.query_opt(&query.sql, &query.values.params()).await?;
            row::nat(found.map_or(Ok(0), |row| get(&row, 0))?, "number of runs")
        })
    }

    /// Open runs that none of the query's codes records, and parked ones, in the order of their places.
    pub(crate) async fn foreign(&self, query: &ForeignRuns) -> Result<Vec<RunRecord>, StoreError> {
        match &query.due {
            Some((now, silent)) => self.foreign_due(query, *now, silent).await,
            None => self.foreign_open(query).await,
        }
    }

    async fn foreign_open(&self, query: &ForeignRuns) -> Result<Vec<RunRecord>, StoreError> {
        let codes: Vec<_> = query.codes.iter().map(CodeId::as_str).collect();
        let after = query.after.map_or(-1, |place| row::int(place.number()));
        ask!(self, |conn| {
            let rows = conn.query(FOREIGN_OPEN.as_str(), &[&codes, &after, &limit(query.limit)]).await?;
            Ok(readable(&rows, record))
        })
    }

    async fn foreign_due(
        &self,
        query: &ForeignRuns,
        now: Timestamp,
        watched: &[SilentWorker],
    ) -> Result<Vec<RunRecord>, StoreError> {
        let codes: Vec<_> = query.codes.iter().map(CodeId::as_str).collect();
        let after = query.after.map_or(-1, |place| row::int(place.number()));
        let (silent, renewals) = self.silent_here(watched);
        let now = row::micros(now);
        ask!(self, |conn| {
            // A message that was sent while its run got other code may have left its row under the former one.
            conn.execute(REPAIR, &[&codes]).await?;
            let due = conn.query_opt(FOREIGN_COUNT.as_str(), &[&codes, &now, &MANY]).await?;
            if due.map_or(Ok(0), |row| get::<i64>(&row, 0))? >= MANY {
                return foreign_of_many(conn, &codes, after, query.limit, (now, &silent, &renewals)).await;
            }
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [&codes, &after, &limit(query.limit), &now, &silent, &renewals];
            Ok(readable(&conn.query(FOREIGN_DUE.as_str(), &params).await?, record))
        })
    }
}

/// As [`FOREIGN_DUE`], of so many that putting them in order for each page would take longer than the page: open runs are
/// walked over in their order, a window at a time.
async fn foreign_of_many(
    conn: &Connection,
    codes: &[&str],
    mut after: i64,
    most: usize,
    (now, silent, renewals): (i64, &[&str], &[i64]),
) -> Result<Vec<RunRecord>, OpError> {
    let (mut shards, mut ids): (Vec<i16>, Vec<String>) = Default::default();
    loop {
        let left = limit(most).map(|most| most.saturating_sub(crate::claims::number(ids.len())));
        let params: [Param<'_>; 7] = [&codes, &after, &left, &now, &silent, &renewals, &WINDOW];
        let mut end = None;
        for row in conn.query(FOREIGN_WINDOW.as_str(), &params).await? {
            match get::<Option<String>>(&row, 1)? {
                Some(id) => {
                    shards.push(get(&row, 0)?);
                    ids.push(id);
                }
                None => end = get(&row, 2)?,
            }
        }
        match end {
            Some(end) if most == 0 || ids.len() < most => after = end,
            _ => break,
        }
    }
    Ok(readable(&conn.query(FOREIGN_NAMED.as_str(), &[&shards, &ids]).await?, record))
}

/// The codes that `table` has in an index that begins with the code, one step through the index for each.
pub(crate) fn codes_in(table: &str, condition: &str) -> String {
    codes_of("codes", table, condition)
}

/// As [`codes_in`], under another name.
pub(crate) fn codes_of(codes: &str, table: &str, condition: &str) -> String {
    format!(
        "{codes}(code) AS ((SELECT f.code FROM {table} f WHERE {condition} ORDER BY f.code LIMIT 1)
         UNION ALL SELECT (SELECT f.code FROM {table} f WHERE f.code > {codes}.code AND {condition}
             ORDER BY f.code LIMIT 1) FROM {codes} WHERE {codes}.code IS NOT NULL)"
    )
}

/// One step through the index for each code of open runs, then one search for each of them that is not known.
static FOREIGN_OPEN: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let found = "(SELECT c.* FROM (
            SELECT f.* FROM codes k CROSS JOIN LATERAL (SELECT o.shard, o.id, o.place FROM runs o
                WHERE o.code <= k.code AND (o.code, o.place) > (k.code, $2::int8) AND o.status < 3
                ORDER BY o.code, o.place LIMIT $3::int8) f
            WHERE k.code IS NOT NULL AND k.code <> ALL($1::text[])
            UNION ALL
            (SELECT p.shard, p.id, p.place FROM runs p
                WHERE p.parked AND p.code = ANY($1) AND p.status < 3 AND p.place > $2 ORDER BY p.place LIMIT $3)) c
        ORDER BY c.place LIMIT $3) c JOIN runs r ON r.shard = c.shard AND r.id = c.id";
    format!("WITH RECURSIVE {} {} ORDER BY c.place", codes_in("runs", "f.status < 3"), select("", found))
});

/// As [`FOREIGN_OPEN`], by what is due, and by what silent workers hold: what they were advancing is due, whatever the time of
/// a message to it.
static FOREIGN_DUE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let found = "(SELECT c.* FROM (
            SELECT o.shard, o.id, o.place FROM codes k
            CROSS JOIN LATERAL (SELECT q.shard, q.run FROM due q
                WHERE q.code = k.code AND q.wake_at <= $4::int8 AND q.queue IS NULL ORDER BY q.wake_at) q
            JOIN runs o ON o.shard = q.shard AND o.id = q.run
            WHERE k.code IS NOT NULL AND k.code <> ALL($1::text[])
                AND o.owner IS NULL AND o.status < 3 AND NOT o.parked AND o.code <> ALL($1) AND o.place > $2::int8
            UNION ALL
            SELECT o.shard, o.id, o.place FROM queued k
            CROSS JOIN LATERAL (SELECT q.shard, q.run FROM due q
                WHERE q.code = k.code AND q.wake_at <= $4 AND q.queue IS NOT NULL ORDER BY q.wake_at) q
            JOIN runs o ON o.shard = q.shard AND o.id = q.run
            WHERE k.code IS NOT NULL AND k.code <> ALL($1)
                AND o.owner IS NULL AND o.status < 3 AND NOT o.parked AND o.code <> ALL($1) AND o.place > $2
            UNION ALL
            SELECT o.shard, o.id, o.place FROM unnest($5::text[], $6::int8[]) AS s(id, renewals)
            LEFT JOIN workers w ON w.id = s.id
            JOIN runs o ON o.owner = s.id
            LEFT JOIN due q ON q.shard = o.shard AND q.run = o.id
            WHERE coalesce(w.renewals, 0) = s.renewals AND (q.wake_at IS NULL OR q.wake_at <= $4 OR o.status = 1)
                AND o.status < 3 AND NOT o.parked AND o.code <> ALL($1) AND o.place > $2) c
        ORDER BY c.place LIMIT $3::int8) c JOIN runs r ON r.shard = c.shard AND r.id = c.id";
    let codes = codes_in("due", "f.queue IS NULL");
    let queued = codes_of("queued", "due", "f.queue IS NOT NULL");
    let sql = format!("WITH RECURSIVE {codes}, {queued} {} ORDER BY c.place", select("", found));
    // Whatever is listed here is due: a run that a dead worker had suspended and kept, too.
    sql.replacen(BESIDE, "j.at, j.next, j.epoch, coalesce(d.wake_at, r.created_at), d.ready", 1)
});

/// From so many due runs on, [`FOREIGN_WINDOW`] is used.
const MANY: i64 = 10_000;
/// How many open runs of each code are looked at in one statement.
const WINDOW: i64 = 10_000;

/// How many rows of `due` under codes that are not known are due: $1 codes, $2 now, $3 the most that are counted.
static FOREIGN_COUNT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let counted = |codes: &str, of: &str| {
        format!(
            "SELECT f.shard FROM {codes} k CROSS JOIN LATERAL (SELECT q.shard FROM due q
                WHERE q.code = k.code AND q.wake_at <= $2::int8 AND q.queue {of} ORDER BY q.wake_at LIMIT $3::int8) f
            WHERE k.code IS NOT NULL AND k.code <> ALL($1::text[])"
        )
    };
    format!(
        "WITH RECURSIVE {}, {} SELECT count(*) FROM (({}) UNION ALL ({}) LIMIT $3) c",
        codes_in("due", "f.queue IS NULL"),
        codes_of("queued", "due", "f.queue IS NOT NULL"),
        counted("codes", "IS NULL"),
        counted("queued", "IS NOT NULL")
    )
});

/// The first of them behind place $2 by their places, $3 at most, of the next $7 open runs of each code; $4 now, $5 and $6
/// silent workers. The row without a run says up to which place all of them were looked at, where there are more.
static FOREIGN_WINDOW: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    format!(
        "WITH RECURSIVE {},
        near AS MATERIALIZED (SELECT f.* FROM codes k CROSS JOIN LATERAL (
                SELECT o.code, o.shard, o.id, o.place, o.owner, o.parked, o.status FROM runs o
                WHERE o.code <= k.code AND (o.code, o.place) > (k.code, $2::int8) AND o.status < 3
                ORDER BY o.code, o.place LIMIT $7::int8) f
            WHERE k.code IS NOT NULL AND k.code <> ALL($1::text[])),
        seen AS MATERIALIZED (SELECT min(e.place) AS place
            FROM (SELECT max(n.place) AS place FROM near n GROUP BY n.code HAVING count(*) >= $7) e),
        silent AS MATERIALIZED (SELECT s.id FROM unnest($5::text[], $6::int8[]) AS s(id, renewals)
            LEFT JOIN workers w ON w.id = s.id WHERE coalesce(w.renewals, 0) = s.renewals)
        (SELECT n.shard, n.id, n.place FROM near n CROSS JOIN seen LEFT JOIN due q ON q.shard = n.shard AND q.run = n.id
            WHERE NOT n.parked AND (seen.place IS NULL OR n.place <= seen.place)
                AND ((n.owner IS NULL AND q.wake_at <= $4::int8)
                    OR ((n.owner IN (SELECT id FROM silent)) IS TRUE
                        AND (q.wake_at IS NULL OR q.wake_at <= $4 OR n.status = 1)))
            ORDER BY n.place LIMIT $3::int8)
        UNION ALL SELECT NULL, NULL, place FROM seen",
        codes_in("runs", "f.status < 3")
    )
});

/// Runs by their ids, with when they are due: $1 shards, $2 ids.
static FOREIGN_NAMED: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let named =
        "unnest($1::int2[], $2::text[]) AS c(shard, id) JOIN runs r ON r.shard = c.shard AND r.id = c.id";
    let sql = select("", named) + " ORDER BY r.place";
    sql.replacen(BESIDE, "j.at, j.next, j.epoch, coalesce(d.wake_at, r.created_at), d.ready", 1)
});

/// Rows of `due` under codes that are not known, of runs whose code is.
const REPAIR: &str = "
WITH RECURSIVE codes(code) AS ((SELECT f.code FROM due f WHERE f.queue IS NULL ORDER BY f.code LIMIT 1)
    UNION ALL SELECT (SELECT f.code FROM due f WHERE f.code > codes.code AND f.queue IS NULL ORDER BY f.code LIMIT 1)
    FROM codes WHERE codes.code IS NOT NULL),
stray AS MATERIALIZED (SELECT q.shard, q.run, r.code FROM codes k
    CROSS JOIN LATERAL (SELECT f.shard, f.run FROM due f WHERE f.code = k.code AND f.queue IS NULL ORDER BY f.wake_at LIMIT 100) q
    JOIN runs r ON r.shard = q.shard AND r.id = q.run
    WHERE k.code IS NOT NULL AND k.code <> ALL($1::text[]) AND r.code = ANY($1))
UPDATE due d SET code = s.code FROM stray s WHERE d.shard = s.shard AND d.run = s.run";
