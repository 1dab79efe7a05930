//! Streams.
//!
//! Promise: all chunks of one call are one transaction in each database, or few. It holds the rows of their runs, and each
//! takes effect only at the epoch of its run's worker. One that was made although its answer was lost is not made twice.

use std::collections::{BTreeMap, HashSet};

use aether_core::id::{CommandId, RunId};
use aether_core::store::{StoreError, StreamItem, StreamKind, StreamWrite};
use futures_util::future::join4;
use tokio_postgres::Row;

use crate::connection::{Connection, Param};
use crate::database::{Database, ask};
use crate::error::OpError;
use crate::placement::search::at;
use crate::placement::shared::Shared;
use crate::row::{self, get};
use crate::shard::shard;

/// The third version of the tables.
pub(crate) const TABLES: &str = r#"
CREATE TABLE streams(
    shard   int2 NOT NULL,
    run     text COLLATE "C" NOT NULL,
    stream  text COLLATE "C" NOT NULL,
    seq     int8 NOT NULL,
    since   int8 NOT NULL,
    kind    int2 NOT NULL,
    command text COLLATE "C" NOT NULL,
    attempt int8 NOT NULL,
    epoch   int8 NOT NULL,
    at      int8 NOT NULL,
    part    int8 NOT NULL,
    data    text NOT NULL,
    PRIMARY KEY(shard, run, stream, seq)
);
CREATE INDEX streams_open ON streams(shard, run, command, stream, seq) WHERE kind IN (0, 2);
"#;

/// Holds the rows of runs, so that no worker claims them meanwhile and nobody else writes to their streams. A statement of
/// its own: the next one sees what was written before the rows were free. In one order, so that nobody waits in a circle.
pub(crate) const HOLD: &str = "SELECT 1 FROM runs r
    JOIN unnest($1::int2[], $2::text[]) AS q(shard, run) ON r.shard = q.shard AND r.id = q.run
    ORDER BY r.shard, r.id FOR NO KEY UPDATE OF r";

/// Writes at most one chunk for each stream and command. Gives a row for each that is not refused, and one for each item.
/// The parts hand their rows on whole: to join two of them the planner would compare each row with each.
const WRITE: &str = "
WITH w AS MATERIALIZED (SELECT w.* FROM unnest($1::int8[], $2::int2[], $3::text[], $4::int8[], $5::text[], $6::text[],
        $7::int8[], $8::int8[], $9::int8[], $10::text[], $11::bool[])
        AS w(no, shard, run, epoch, stream, command, attempt, at, part, data, begins)
    JOIN runs r ON r.shard = w.shard AND r.id = w.run WHERE r.epoch = w.epoch AND r.status < 3),
due AS MATERIALIZED (SELECT w.* FROM w WHERE CASE WHEN w.begins
    THEN NOT EXISTS (SELECT FROM streams s WHERE s.shard = w.shard AND s.run = w.run AND s.stream = w.stream
        AND s.command = w.command AND s.epoch = w.epoch AND s.part >= w.part)
    ELSE w.part = 1 + (SELECT s.part FROM streams s
        WHERE s.shard = w.shard AND s.run = w.run AND s.command = w.command AND s.stream = w.stream AND s.kind = 0
        ORDER BY s.seq DESC LIMIT 1) END),
items AS (SELECT d.*, 0 AS place, 2::int2 AS kind, open.since FROM due d, LATERAL (SELECT min(s.since) AS since
        FROM streams s WHERE s.shard = d.shard AND s.run = d.run AND s.command = d.command AND s.stream = d.stream
            AND s.kind IN (0, 2)) AS open
        WHERE d.begins AND open.since IS NOT NULL
    UNION ALL SELECT d.*, 1, 0::int2, NULL FROM due d),
numbered AS MATERIALIZED (SELECT i.*,
        (SELECT coalesce(max(s.seq), 0) FROM streams s
            WHERE s.shard = i.shard AND s.run = i.run AND s.stream = i.stream)
        + row_number() OVER (PARTITION BY i.shard, i.run, i.stream ORDER BY i.no, i.place) AS seq
    FROM items i),
gone AS (DELETE FROM streams s USING due d
    WHERE d.begins AND s.shard = d.shard AND s.run = d.run AND s.command = d.command AND s.stream = d.stream
        AND s.kind IN (0, 2)),
made AS (INSERT INTO streams(shard, run, stream, seq, since, kind, command, attempt, epoch, at, part, data)
    SELECT shard, run, stream, seq, coalesce(since, seq), kind, command, attempt, epoch, at,
        CASE kind WHEN 0 THEN part ELSE 0 END, CASE kind WHEN 0 THEN data ELSE 'null' END FROM numbered)
SELECT no, seq, coalesce(since, seq), kind FROM (SELECT no, -1 AS place, NULL::int8 AS seq, NULL::int8 AS since, NULL::int2 AS kind FROM w
    UNION ALL SELECT no, place, seq, since, kind FROM numbered) AS made_of ORDER BY no, place";

const OPEN: &str =
    "SELECT DISTINCT command FROM streams WHERE shard = $1::int2 AND run = $2::text AND kind = 0
    ORDER BY command";

const READ: &str = "SELECT stream, seq, since, kind, command, attempt, epoch, at, data FROM streams
    WHERE shard = $1::int2 AND run = $2::text AND stream = $3::text AND seq > $4::int8 ORDER BY seq LIMIT $5::int8";

/// What became of a write: the items that it made, or nothing where it was refused.
pub(crate) type Written = Option<Vec<StreamItem>>;

impl Database {
    /// See [`Store::write_streams`](aether_core::store::Store::write_streams); all runs are in this database.
    pub(crate) async fn write_streams(&self, writes: &[&StreamWrite]) -> Result<Vec<Written>, StoreError> {
        let mut written = Vec::with_capacity(writes.len());
        for round in rounds(writes) {
            written.extend(ask!(self, |conn| write(conn, round).await)?);
        }
        Ok(written)
    }

    /// See [`Store::open_streams`](aether_core::store::Store::open_streams).
    pub(crate) async fn open_streams(&self, run: &RunId) -> Result<Vec<CommandId>, StoreError> {
        ask!(self, |conn| {
            let rows = conn.query(OPEN, &[&shard(run.as_str()), &run.as_str()]).await?;
            rows.iter().map(|row| Ok(CommandId::from(get::<String>(row, 0)?))).collect()
        })
    }

    /// See [`Store::stream`](aether_core::store::Store::stream).
    pub(crate) async fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StreamItem>, StoreError> {
        let (of, after, limit) = (shard(run.as_str()), row::int(after), row::int(limit as u64));
        ask!(self, |conn| {
            let rows = conn.query(READ, &[&of, &run.as_str(), &stream, &after, &limit]).await?;
            rows.iter().map(item).collect()
        })
    }
}

/// See [`Store::write_streams`](aether_core::store::Store::write_streams).
pub(crate) async fn write_streams(
    shared: &Shared,
    writes: &[StreamWrite],
) -> Result<Vec<Written>, StoreError> {
    let mut places: BTreeMap<usize, Vec<(usize, &StreamWrite)>> = BTreeMap::new();
    for (place, write) in writes.iter().enumerate() {
        let database = shared.map.spot(shard(write.run.as_str())).database;
        places.entry(database).or_default().push((place, write));
    }
    let mut written: Vec<Written> = vec![None; writes.len()];
    for (database, of_it) in places {
        let (at, of_it): (Vec<usize>, Vec<&StreamWrite>) = of_it.into_iter().unzip();
        for (place, answer) in at.into_iter().zip(shared.database(database).write_streams(&of_it).await?) {
            if let Some(written) = written.get_mut(place) {
                *written = answer;
            }
        }
    }
    // A run whose bucket has moved meanwhile is not where it was looked for.
    let unknown = written.iter_mut().zip(writes).filter(|(written, _)| written.is_none());
    for (written, write) in unknown.filter(|_| shared.is_sharded()) {
        *written = at!(shared, write.run.as_str(), |db| one(db, write))?;
    }
    Ok(written)
}

async fn one(database: &Database, write: &StreamWrite) -> Result<Written, StoreError> {
    Ok(database.write_streams(&[write]).await?.pop().flatten())
}

/// The writes in pieces, in each of which a command writes once to a stream: a statement sees the rows as they were before.
fn rounds<'a, 'w>(writes: &'a [&'w StreamWrite]) -> Vec<&'a [&'w StreamWrite]> {
    let (mut rounds, mut rest) = (Vec::new(), writes);
    while !rest.is_empty() {
        let mut seen = HashSet::new();
        let new = rest.iter().take_while(|write| seen.insert((&write.run, &write.stream, &write.command)));
        let (round, after) = rest.split_at(new.count());
        rounds.push(round);
        rest = after;
    }
    rounds
}

/// Writes one round, in one transaction.
async fn write(conn: &Connection, writes: &[&StreamWrite]) -> Result<Vec<Written>, OpError> {
    let numbers: Vec<i64> = (0..).take(writes.len()).collect();
    let runs: Vec<&str> = writes.iter().map(|write| write.run.as_str()).collect();
    let shards: Vec<i16> = runs.iter().map(|run| shard(run)).collect();
    let epochs: Vec<i64> = writes.iter().map(|write| row::int(write.epoch)).collect();
    let streams: Vec<&str> = writes.iter().map(|write| &*write.stream).collect();
    let commands: Vec<&str> = writes.iter().map(|write| write.command.as_str()).collect();
    let attempts: Vec<i64> = writes.iter().map(|write| i64::from(write.attempt)).collect();
    let ats: Vec<i64> = writes.iter().map(|write| row::micros(write.at)).collect();
    let places: Vec<i64> = writes.iter().map(|write| row::int(write.place())).collect();
    let begin: Vec<bool> = writes.iter().map(|write| write.part == 0).collect();
    let data: Vec<&str> = writes.iter().map(|write| write.items.as_str()).collect();
    // Before the transaction begins: preparing is a round trip of its own.
    conn.prepare(HOLD).await?;
    conn.prepare(WRITE).await?;
    let hold: [Param<'_>; 2] = [&shards, &runs];
    let params: [Param<'_>; 11] =
        [&numbers, &shards, &runs, &epochs, &streams, &commands, &attempts, &ats, &places, &data, &begin];
    // All are sent at once, and the server works them off in order; after an error in one the rest does nothing.
    let (begun, held, rows, committed) = join4(
        conn.word(conn.beginning()),
        conn.rows(HOLD, &hold),
        conn.rows(WRITE, &params),
        conn.word("COMMIT"),
    )
    .await;
    begun?;
    held?;
    let rows = rows?;
    committed?;
    let mut written: Vec<Written> = vec![None; writes.len()];
    for row in &rows {
        let number = usize::try_from(get::<i64>(row, 0)?).unwrap_or(usize::MAX);
        let (Some(write), Some(of)) = (writes.get(number), written.get_mut(number)) else { continue };
        let items = of.get_or_insert_default();
        if let Some(seq) = get::<Option<i64>>(row, 1)? {
            items.push(made(write, seq, get(row, 2)?, get(row, 3)?)?);
        }
    }
    Ok(written)
}

/// The item that a write made under this number.
fn made(write: &StreamWrite, seq: i64, since: i64, kind: i16) -> Result<StreamItem, OpError> {
    let kind = known(kind)?;
    let data = match kind {
        StreamKind::Chunk => write.items.clone(),
        _ => aether_core::payload::Payload::null(),
    };
    Ok(StreamItem {
        stream: write.stream.clone(),
        seq: row::nat(seq, "number of an item")?,
        since: row::nat(since, "first number of an item")?,
        kind,
        command: write.command.clone(),
        attempt: write.attempt,
        epoch: write.epoch,
        at: write.at,
        data,
    })
}

fn known(kind: i16) -> Result<StreamKind, OpError> {
    let unknown =
        || OpError::Row(format!("an item of a stream is of kind {kind}, which this build does not know"));
    StreamKind::from_number(kind).ok_or_else(unknown)
}

fn item(row: &Row) -> Result<StreamItem, OpError> {
    Ok(StreamItem {
        stream: get(row, 0)?,
        seq: row::nat(get(row, 1)?, "number of an item")?,
        since: row::nat(get(row, 2)?, "first number of an item")?,
        kind: known(get(row, 3)?)?,
        command: CommandId::from(get::<String>(row, 4)?),
        attempt: row::nat32(get(row, 5)?, "attempt")?,
        epoch: row::nat(get(row, 6)?, "epoch")?,
        at: row::time(get(row, 7)?)?,
        data: row::payload(get(row, 8)?)?,
    })
}
