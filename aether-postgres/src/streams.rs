//! Streams.
//!
//! Promise: a write takes effect whole, in one transaction that holds the run's row, and only at the epoch of the run's
//! worker. One that was made although its answer was lost is not made twice.

use aether_core::id::{CommandId, RunId};
use aether_core::store::{StoreError, StreamChange, StreamItem, StreamKind, StreamWrite};
use tokio_postgres::Row;

use crate::connection::{Param, Transaction};
use crate::database::{Database, ask};
use crate::error::OpError;
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

/// Holds the row, so that no worker claims the run meanwhile.
const OWNED: &str =
    "SELECT 1 FROM runs WHERE shard = $1::int2 AND id = $2::text AND epoch = $3::int8 AND status < 3
    FOR NO KEY UPDATE";

const NEWEST_PART: &str =
    "SELECT part FROM streams WHERE shard = $1::int2 AND run = $2::text AND stream = $3::text
    AND command = $4::text AND kind = 0 ORDER BY seq DESC LIMIT 1";

const OPEN: &str = "SELECT DISTINCT stream FROM streams WHERE shard = $1::int2 AND run = $2::text
    AND command = $3::text AND kind IN (0, 2) ORDER BY stream";

const SINCE: &str =
    "SELECT min(since) FROM streams WHERE shard = $1::int2 AND run = $2::text AND stream = $3::text
    AND command = $4::text AND kind IN (0, 2)";

const DELETE: &str = "DELETE FROM streams WHERE shard = $1::int2 AND run = $2::text AND stream = $3::text
    AND command = $4::text AND kind IN (0, 2) AND seq < $5::int8";

const FOLD: &str = "
WITH open AS (SELECT seq, since, kind, data FROM streams WHERE shard = $1::int2 AND run = $2::text
        AND stream = $3::text AND command = $4::text AND kind IN (0, 2)),
    kept AS (SELECT max(seq) FILTER (WHERE kind = 0) AS seq, min(since) AS since,
        '[' || string_agg(substr(data, 2, length(data) - 2), ',' ORDER BY seq) FILTER (WHERE kind = 0) || ']' AS data
        FROM open)
UPDATE streams s SET kind = 1, part = 0, since = kept.since, data = kept.data FROM kept
    WHERE s.shard = $1 AND s.run = $2 AND s.stream = $3 AND s.seq = kept.seq";

const PUSH: &str = "
INSERT INTO streams(shard, run, stream, seq, since, kind, command, attempt, epoch, at, part, data)
SELECT $1::int2, $2::text, $3::text, last.seq + 1, coalesce($4::int8, last.seq + 1), $5::int2, $6::text, $7::int8,
    $8::int8, $9::int8, $10::int8, $11::text
FROM (SELECT coalesce(max(seq), 0) AS seq FROM streams WHERE shard = $1 AND run = $2 AND stream = $3) last
RETURNING stream, seq, since, kind, command, attempt, epoch, at, data";

const READ: &str = "SELECT stream, seq, since, kind, command, attempt, epoch, at, data FROM streams
    WHERE shard = $1::int2 AND run = $2::text AND stream = $3::text AND seq > $4::int8 ORDER BY seq LIMIT $5::int8";

impl Database {
    /// One of the writes of [`Store::write_streams`](aether_core::store::Store::write_streams).
    pub(crate) async fn write_stream(
        &self,
        write: &StreamWrite,
    ) -> Result<Option<Vec<StreamItem>>, StoreError> {
        ask!(self, |conn| {
            let transaction = conn.begin().await?;
            let streams = Streams { transaction: &transaction, of: shard(write.run.as_str()), write };
            let written = streams.write().await?;
            transaction.commit().await?;
            Ok(written)
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

/// The streams of one run, in a transaction.
struct Streams<'t> {
    transaction: &'t Transaction<'t>,
    of: i16,
    write: &'t StreamWrite,
}

impl Streams<'_> {
    fn run(&self) -> &str {
        self.write.run.as_str()
    }

    async fn write(&self) -> Result<Option<Vec<StreamItem>>, OpError> {
        let epoch = row::int(self.write.epoch);
        if self.transaction.query(OWNED, &[&self.of, &self.run(), &epoch]).await?.is_empty() {
            return Ok(None);
        }
        match &self.write.change {
            StreamChange::Chunk { stream, part, items } => {
                self.chunk(stream, *part, items.as_str()).await.map(Some)
            }
            StreamChange::End { keeps, digest } => {
                let mut written = Vec::new();
                for stream in self.open().await? {
                    let kept = keeps.as_ref().is_none_or(|keeps| keeps.contains(&stream));
                    if !(kept && self.fold(&stream).await?) {
                        written.extend(self.restart(&stream).await?);
                    } else {
                        let digest = format!("\"{}\"", digest.as_str());
                        written.push(self.push(&stream, StreamKind::Committed, None, 0, &digest).await?);
                    }
                }
                Ok(Some(written))
            }
        }
    }

    async fn chunk(&self, stream: &str, part: u32, items: &str) -> Result<Vec<StreamItem>, OpError> {
        let mut written = Vec::new();
        if part == 0 {
            written.extend(self.restart(stream).await?);
        } else {
            let command = self.write.command.as_str();
            let newest =
                self.transaction.query(NEWEST_PART, &[&self.of, &self.run(), &stream, &command]).await?;
            let newest: Option<i64> = newest.first().map(|row| get(row, 0)).transpose()?;
            if newest.is_some_and(|newest| newest >= i64::from(part)) {
                return Ok(written);
            }
        }
        written.push(self.push(stream, StreamKind::Chunk, None, part, items).await?);
        Ok(written)
    }

    /// The streams in which the command has open items.
    async fn open(&self) -> Result<Vec<String>, OpError> {
        let rows =
            self.transaction.query(OPEN, &[&self.of, &self.run(), &self.write.command.as_str()]).await?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    /// Puts an item of kind `Restarted` in the place of the open ones, if there are any.
    async fn restart(&self, stream: &str) -> Result<Option<StreamItem>, OpError> {
        let command = self.write.command.as_str();
        let rows = self.transaction.query(SINCE, &[&self.of, &self.run(), &stream, &command]).await?;
        let since: Option<i64> = rows.first().map_or(Ok(None), |row| get(row, 0))?;
        let Some(since) = since else { return Ok(None) };
        let restarted = self.push(stream, StreamKind::Restarted, Some(since), 0, "null").await?;
        self.delete(stream, row::int(restarted.seq)).await?;
        Ok(Some(restarted))
    }

    /// Puts one item in the place of the command's chunks; says whether there were any.
    async fn fold(&self, stream: &str) -> Result<bool, OpError> {
        let params: [Param<'_>; 4] = [&self.of, &self.run(), &stream, &self.write.command.as_str()];
        let folded = self.transaction.execute(FOLD, &params).await? > 0;
        if folded {
            self.delete(stream, i64::MAX).await?;
        }
        Ok(folded)
    }

    async fn delete(&self, stream: &str, before: i64) -> Result<(), OpError> {
        let command = self.write.command.as_str();
        let params: [Param<'_>; 5] = [&self.of, &self.run(), &stream, &command, &before];
        self.transaction.execute(DELETE, &params).await.map(drop)
    }

    async fn push(
        &self,
        stream: &str,
        kind: StreamKind,
        since: Option<i64>,
        part: u32,
        data: &str,
    ) -> Result<StreamItem, OpError> {
        let write = self.write;
        let (attempt, epoch, part) = (i64::from(write.attempt), row::int(write.epoch), i64::from(part));
        let (kind, at) = (kind.number(), row::micros(write.at));
        let command = write.command.as_str();
        let params: [Param<'_>; 11] =
            [&self.of, &self.run(), &stream, &since, &kind, &command, &attempt, &epoch, &at, &part, &data];
        let rows = self.transaction.query(PUSH, &params).await?;
        let missing = || OpError::Row(format!("an item of stream `{stream}` was not written"));
        rows.first().ok_or_else(missing).and_then(item)
    }
}

fn item(row: &Row) -> Result<StreamItem, OpError> {
    let kind: i16 = get(row, 3)?;
    let unknown =
        || OpError::Row(format!("an item of a stream is of kind {kind}, which this build does not know"));
    Ok(StreamItem {
        stream: get(row, 0)?,
        seq: row::nat(get(row, 1)?, "number of an item")?,
        since: row::nat(get(row, 2)?, "first number of an item")?,
        kind: StreamKind::from_number(kind).ok_or_else(unknown)?,
        command: CommandId::from(get::<String>(row, 4)?),
        attempt: row::nat32(get(row, 5)?, "attempt")?,
        epoch: row::nat(get(row, 6)?, "epoch")?,
        at: row::time(get(row, 7)?)?,
        data: row::payload(get(row, 8)?)?,
    })
}
