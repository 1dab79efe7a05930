//! Messages to runs: sending, reading, and which runs have some.
//!
//! Promise: a message and the wake-up of its run are written by one statement. Numbers rise within a run: each is one more
//! than the highest that the run ever had, which its key makes unique, so that of two sends at the same time one is made
//! again. A request to end a run locks the row of the run first: it comes before the end of the run, or learns of it.
//!
//! A send whose answer was lost with its connection is made again, and then finds its own message. A message of the same
//! id, topic and time counts as its own, and the caller is told [`Sent::Delivered`], not [`Sent::Duplicate`]. So another
//! caller that sends the same message at the same microsecond may be told that, too, where the message is there once. It also
//! holds where the run is in another database by then.

use std::sync::LazyLock;

use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::Row;

use aether_core::id::{Epoch, RunId, WorkerId};
use aether_core::store::{Cursor, END_REQUESTS, Message, RunRecord, Sent, StoreError, Unread};

use crate::connection::Param;
use crate::database::{Database, ask};
use crate::error::{LostAnswer, OpError};
use crate::readable::{Page, readable};
use crate::row::{self, get};
use crate::runs::{COLUMNS, record, select};
use crate::shard::shard;

/// $1 shard, $2 run, $3 id, $4 topic, $5 payload, $6 at. Gives the run's status, topic and time of a message that has the id
/// already, and the number of the new one. `wake_at` of a held run that has no row may become later than it was: its row
/// only counts once the run is free.
fn send_sql(lock: &str, keeps: &str, then: &str) -> String {
    format!(
        "WITH r AS MATERIALIZED (SELECT shard, id, status, code, queue, terms FROM runs
            WHERE shard = $1::int2 AND id = $2::text {lock}),
        known AS MATERIALIZED (SELECT topic, at FROM inbox WHERE shard = $1 AND run = $2 AND id = $3::text),
        put AS (INSERT INTO inbox(shard, run, seq, id, topic, payload, at)
            SELECT r.shard, r.id, 1 + coalesce((SELECT max(i.seq) FROM inbox i WHERE i.shard = $1 AND i.run = $2), 0),
                $3, $4::text, $5::text, $6::int8
            FROM r WHERE r.status < 3 AND NOT EXISTS (SELECT FROM known) RETURNING seq),
        woken AS (INSERT INTO due AS d (shard, run, wake_at, code, seq, notified, queue)
            SELECT r.shard, r.id, $6, r.code, put.seq, false, r.queue FROM r CROSS JOIN put
            ON CONFLICT (shard, run) DO UPDATE
            SET wake_at = CASE WHEN {keeps} THEN d.wake_at ELSE least(d.wake_at, excluded.wake_at) END,
                seq = greatest(d.seq, excluded.seq)){then}
        SELECT r.status, (SELECT topic FROM known), (SELECT at FROM known), (SELECT seq FROM put) FROM r"
    )
}

/// One that has not begun, and begins at a time, keeps the message until then.
pub(crate) static SEND: LazyLock<String> = LazyLock::new(|| {
    let keeps =
        "(SELECT r.status = 0 AND r.terms IS NOT NULL AND r.terms::json ->> 'not_before' IS NOT NULL FROM r)";
    send_sql("", keeps, "")
});

/// The lock comes first: where an append that ends the run is about to be committed, this waits for it. Where this is about
/// to be committed, that append waits, and finds `ending`. Before its first turn a run of a queue needs no turn to end.
static SEND_END_REQUEST: LazyLock<String> = LazyLock::new(|| {
    let then = ", asked AS (UPDATE runs u SET ending = put.seq,
            lapses_at = CASE WHEN u.queue IS NULL OR u.begun THEN u.lapses_at ELSE least(u.lapses_at, $6) END FROM put WHERE u.shard = $1 AND u.id = $2)";
    send_sql("FOR NO KEY UPDATE", "false", then)
});

const INBOX: &str = "SELECT seq, id, topic, payload, at FROM inbox
    WHERE shard = $1::int2 AND run = $2::text AND seq > $3::int8 AND consumed IS NULL ORDER BY seq";

const UNREAD: &str = "SELECT count(*), coalesce(sum(octet_length(payload)), 0)::int8 FROM inbox
    WHERE shard = $1::int2 AND run = $2::text AND consumed IS NULL";

const HELD: &str = "SELECT r.id, r.epoch FROM runs r WHERE r.owner = $1::text AND r.status < 3";

const UNREAD_HELD: &str = "SELECT r.id, m.seq FROM runs r
    CROSS JOIN LATERAL (SELECT i.seq FROM inbox i WHERE i.shard = r.shard AND i.run = r.id AND i.consumed IS NULL
        ORDER BY i.shard DESC, i.run DESC, i.seq DESC LIMIT 1) m
    WHERE r.owner = $1::text";

/// One step through the index of unread messages for each run that has some; runs without cost nothing.
static UNREAD_WAITING: LazyLock<String> = LazyLock::new(|| {
    let from = "found c JOIN runs r ON r.shard = c.shard AND r.id = c.run
        CROSS JOIN LATERAL (SELECT i.seq FROM inbox i WHERE i.shard = c.shard AND i.run = c.run
            AND i.consumed IS NULL ORDER BY i.shard DESC, i.run DESC, i.seq DESC LIMIT 1) m";
    format!(
        "WITH RECURSIVE u(shard, run) AS (
            (SELECT i.shard, i.run FROM inbox i WHERE i.consumed IS NULL ORDER BY i.shard, i.run, i.seq LIMIT 1)
            UNION ALL SELECT n.shard, n.run FROM u CROSS JOIN LATERAL (SELECT i.shard, i.run FROM inbox i
                WHERE i.consumed IS NULL AND (i.shard, i.run) > (u.shard, u.run)
                ORDER BY i.shard, i.run, i.seq LIMIT 1) n),
        found AS MATERIALIZED (SELECT u.shard, u.run, r.place FROM u
            CROSS JOIN LATERAL (SELECT o.* FROM runs o WHERE o.shard = u.shard AND o.id = u.run OFFSET 0) r
            WHERE r.status = 2 AND r.owner IS NULL AND r.place < $1::int8 ORDER BY r.place DESC LIMIT $2::int8)
        {} ORDER BY c.place DESC",
        select(", m.seq", from)
    )
});

/// Sends of one process to the runs of one shard wait here for each other, and not for a conflict in the database.
#[derive(Debug)]
pub(crate) struct Doors(Vec<Mutex<()>>);

impl Default for Doors {
    fn default() -> Self {
        Self((0..256).map(|_| Mutex::new(())).collect())
    }
}

impl Doors {
    async fn enter(&self, shard: i16) -> Option<MutexGuard<'_, ()>> {
        let number = usize::try_from(shard).ok()? % self.0.len().max(1);
        Some(self.0.get(number)?.lock().await)
    }
}

impl Database {
    /// See [`Store::send`](aether_core::store::Store::send). `lost` is kept from one database to the next.
    pub(crate) async fn send(
        &self,
        run: &RunId,
        message: &Message,
        lost: &LostAnswer,
    ) -> Result<Sent, StoreError> {
        let of = shard(run.as_str());
        let at = row::micros(message.at);
        let is_request = END_REQUESTS.contains(&message.topic.as_str());
        let sql = if is_request { &SEND_END_REQUEST } else { &SEND };
        let asking = self.asking();
        let _alone = asking.waits_for("turn to send to its bucket", self.doors.enter(of)).await?;
        ask!(at asking, |conn| {
            let params: [Param<'_>; 6] = [
                &of,
                &run.as_str(),
                &message.id.as_str(),
                &message.topic.as_str(),
                &message.payload.as_str(),
                &at,
            ];
            let found = lost.noting(conn.query_opt(sql.as_str(), &params).await)?;
            let Some(found) = found else {
                return Err(StoreError::UnknownRun { run: run.clone() }.into());
            };
            let is_own = |topic: &str, sent: i64| lost.happened() && topic == message.topic && sent == at;
            sent(&found, is_own)
        })
    }

    /// See [`Store::inbox`](aether_core::store::Store::inbox).
    pub(crate) async fn inbox(&self, run: &RunId, after: u64) -> Result<Vec<Message>, StoreError> {
        let of = shard(run.as_str());
        ask!(self, |conn| {
            let rows = conn.query(INBOX, &[&of, &run.as_str(), &row::int(after)]).await?;
            rows.iter().map(message).collect()
        })
    }

    /// See [`Store::unread`](aether_core::store::Store::unread).
    pub(crate) async fn unread(&self, run: &RunId) -> Result<Unread, StoreError> {
        let of = shard(run.as_str());
        let size = |size: i64| usize::try_from(size).unwrap_or(0);
        ask!(self, |conn| {
            let Some(found) = conn.query_opt(UNREAD, &[&of, &run.as_str()]).await? else {
                return Ok(Unread::default());
            };
            Ok(Unread { messages: size(get(&found, 0)?), bytes: size(get(&found, 1)?) })
        })
    }

    /// See [`Store::unread_waiting`](aether_core::store::Store::unread_waiting).
    pub(crate) async fn unread_waiting(
        &self,
        after: Option<Cursor>,
        runs: usize,
    ) -> Result<Vec<(RunRecord, u64)>, StoreError> {
        let after = after.map_or(i64::MAX, |place| row::int(place.number()));
        ask!(self, |conn| {
            let newest = |row: &Row| Ok((record(row)?, row::nat(get(row, COLUMNS)?, "message number")?));
            let mut page = Page::or_all(runs);
            loop {
                let rows = conn.query(UNREAD_WAITING.as_str(), &[&after, &page.rows()]).await?;
                if let Some(found) = page.read(&rows, newest) {
                    return Ok(found);
                }
            }
        })
    }

    /// See [`Store::held`](aether_core::store::Store::held).
    pub(crate) async fn held(&self, worker: &WorkerId) -> Result<Vec<(RunId, Epoch)>, StoreError> {
        ask!(self, |conn| {
            let rows = conn.query(HELD, &[&worker.as_str()]).await?;
            let held = |row: &Row| Ok((row::run_id(get(row, 0)?)?, row::nat(get(row, 1)?, "epoch")?));
            Ok(readable(&rows, held))
        })
    }

    /// See [`Store::unread_held`](aether_core::store::Store::unread_held).
    pub(crate) async fn unread_held(&self, worker: &WorkerId) -> Result<Vec<(RunId, u64)>, StoreError> {
        self.say_present(worker).await;
        ask!(self, |conn| {
            let rows = conn.query(UNREAD_HELD, &[&worker.as_str()]).await?;
            let newest =
                |row: &Row| Ok((row::run_id(get(row, 0)?)?, row::nat(get(row, 1)?, "message number")?));
            Ok(readable(&rows, newest))
        })
    }
}

/// What became of a message. `is_own` says whether one that was there before was written by an earlier try.
fn sent(found: &Row, is_own: impl Fn(&str, i64) -> bool) -> Result<Sent, OpError> {
    let (topic, at): (Option<&str>, Option<i64>) = (get(found, 1)?, get(found, 2)?);
    Ok(match (topic, at) {
        (Some(topic), Some(at)) if is_own(topic, at) => Sent::Delivered,
        (Some(_), _) => Sent::Duplicate,
        _ if get::<Option<i64>>(found, 3)?.is_some() => Sent::Delivered,
        _ => Sent::RunEnded(row::status(get(found, 0)?)?),
    })
}

fn message(row: &Row) -> Result<Message, OpError> {
    Ok(Message {
        seq: row::nat(get(row, 0)?, "message number")?,
        id: get(row, 1)?,
        topic: get(row, 2)?,
        payload: row::payload(get(row, 3)?)?,
        at: row::time(get(row, 4)?)?,
    })
}
