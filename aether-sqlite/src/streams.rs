//! Streams in the file.
//!
//! Promise: a write takes effect whole, inside the writer's transaction, and only at the epoch of the run's worker.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use aether_core::id::{CommandId, RunId};
use aether_core::store::{StreamChange, StreamItem, StreamKind, StreamWrite};

use crate::batch::Batch;
use crate::error::OpError;
use crate::row;

const OWNED: &str = "SELECT no FROM aether_runs WHERE id = ?1 AND epoch = ?2
    AND status NOT IN ('completed', 'failed', 'rejected', 'cancelled')";

const COLUMNS: &str = "stream, seq, since, kind, command, attempt, epoch, at, data";

/// Open items of a command: see [`StreamChange`].
const OPEN: &str = "run_no = ?1 AND stream = ?2 AND command = ?3 AND kind IN (0, 2)";

/// The streams of one run, on the writer's connection.
struct Streams<'c> {
    conn: &'c Connection,
    no: i64,
    write: &'c StreamWrite,
}

impl Batch<'_> {
    /// Makes one write; `None` where it is refused.
    pub(crate) fn write_stream(&mut self, write: &StreamWrite) -> Result<Option<Vec<StreamItem>>, OpError> {
        let mut owned = self.conn.prepare_cached(OWNED)?;
        let found = owned.query_row(params![write.run.as_str(), row::int(write.epoch)], |row| row.get(0));
        let Some(no) = found.optional()? else { return Ok(None) };
        let streams = Streams { conn: self.conn, no, write };
        match &write.change {
            StreamChange::Chunk { stream, part, items } => streams.chunk(stream, *part, items.as_str()),
            StreamChange::End { keeps, digest } => {
                let mut written = Vec::new();
                for stream in streams.open()? {
                    let kept = keeps.as_ref().is_none_or(|keeps| keeps.contains(&stream));
                    if !(kept && streams.fold(&stream)?) {
                        written.extend(streams.restart(&stream)?);
                    } else {
                        let digest = format!("\"{}\"", digest.as_str());
                        written.push(streams.push(&stream, StreamKind::Committed, None, 0, &digest)?);
                    }
                }
                Ok(written)
            }
        }
        .map(Some)
    }
}

impl Streams<'_> {
    fn chunk(&self, stream: &str, part: u32, items: &str) -> Result<Vec<StreamItem>, OpError> {
        let mut written = Vec::new();
        if part == 0 {
            written.extend(self.restart(stream)?);
        } else if self.newest_part(stream)?.is_some_and(|newest| newest >= i64::from(part)) {
            return Ok(written);
        }
        written.push(self.push(stream, StreamKind::Chunk, None, part, items)?);
        Ok(written)
    }

    fn newest_part(&self, stream: &str) -> Result<Option<i64>, OpError> {
        let sql =
            "SELECT part FROM aether_streams WHERE run_no = ?1 AND stream = ?2 AND command = ?3 AND kind = 0
                   ORDER BY seq DESC LIMIT 1";
        let params = params![self.no, stream, self.write.command.as_str()];
        Ok(self.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
    }

    /// The streams in which the command has open items.
    fn open(&self) -> Result<Vec<String>, OpError> {
        let sql = "SELECT DISTINCT stream FROM aether_streams WHERE run_no = ?1 AND command = ?2
                   AND kind IN (0, 2) ORDER BY stream";
        let mut statement = self.conn.prepare_cached(sql)?;
        let streams = statement.query_map(params![self.no, self.write.command.as_str()], |row| row.get(0))?;
        Ok(streams.collect::<rusqlite::Result<_>>()?)
    }

    /// Puts an item of kind `Restarted` in the place of the open ones, if there are any.
    fn restart(&self, stream: &str) -> Result<Option<StreamItem>, OpError> {
        let params = params![self.no, stream, self.write.command.as_str()];
        let sql = format!("SELECT min(since) FROM aether_streams WHERE {OPEN}");
        let since: Option<i64> = self.conn.prepare_cached(&sql)?.query_row(params, |row| row.get(0))?;
        let Some(since) = since else { return Ok(None) };
        let restarted = self.push(stream, StreamKind::Restarted, Some(since), 0, "null")?;
        let sql = format!("DELETE FROM aether_streams WHERE {OPEN} AND seq < ?4");
        let params = params![self.no, stream, self.write.command.as_str(), row::int(restarted.seq)];
        self.conn.prepare_cached(&sql)?.execute(params)?;
        Ok(Some(restarted))
    }

    /// Puts one item in the place of the command's chunks; says whether there were any.
    fn fold(&self, stream: &str) -> Result<bool, OpError> {
        let params = params![self.no, stream, self.write.command.as_str()];
        let sql = format!(
            "UPDATE aether_streams SET kind = 1, part = 0,
                 since = (SELECT min(since) FROM aether_streams WHERE {OPEN}),
                 data = (SELECT '[' || group_concat(substr(data, 2, length(data) - 2), ',' ORDER BY seq) || ']'
                     FROM aether_streams WHERE {OPEN} AND kind = 0)
             WHERE run_no = ?1 AND stream = ?2 AND seq =
                 (SELECT max(seq) FROM aether_streams WHERE {OPEN} AND kind = 0)"
        );
        let folded = self.conn.prepare_cached(&sql)?.execute(params)? > 0;
        if folded {
            let sql = format!("DELETE FROM aether_streams WHERE {OPEN}");
            self.conn.prepare_cached(&sql)?.execute(params)?;
        }
        Ok(folded)
    }

    fn push(
        &self,
        stream: &str,
        kind: StreamKind,
        since: Option<i64>,
        part: u32,
        data: &str,
    ) -> Result<StreamItem, OpError> {
        let sql = format!(
            "INSERT INTO aether_streams(run_no, stream, seq, since, kind, command, attempt, epoch, at, data, part)
             SELECT ?1, ?2, last.seq + 1, coalesce(?3, last.seq + 1), ?4, ?5, ?6, ?7, ?8, ?9, ?10
             FROM (SELECT coalesce(max(seq), 0) AS seq FROM aether_streams
                   WHERE run_no = ?1 AND stream = ?2) AS last
             RETURNING {COLUMNS}"
        );
        let write = self.write;
        let (command, epoch) = (write.command.as_str(), row::int(write.epoch));
        let at = write.at.as_microsecond();
        let params =
            params![self.no, stream, since, kind.number(), command, write.attempt, epoch, at, data, part];
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params)?;
        match rows.next()? {
            Some(row) => item(row),
            None => Err(OpError::Row(format!("an item of stream `{stream}` was not written"))),
        }
    }
}

/// At most `limit` items with numbers above `after`.
pub(crate) fn read(
    conn: &Connection,
    run: &RunId,
    stream: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<StreamItem>, OpError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM aether_streams
         WHERE run_no = (SELECT no FROM aether_runs WHERE id = ?1) AND stream = ?2 AND seq > ?3
         ORDER BY seq LIMIT ?4"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![run.as_str(), stream, row::int(after), limit])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(item(row)?);
    }
    Ok(items)
}

fn item(row: &Row<'_>) -> Result<StreamItem, OpError> {
    let kind: i16 = row.get(3)?;
    let kind = StreamKind::from_number(kind).ok_or_else(|| {
        OpError::Row(format!("an item of a stream is of kind {kind}, which this build does not know"))
    })?;
    Ok(StreamItem {
        stream: row.get(0)?,
        seq: row::nat(row.get(1)?, "number of an item")?,
        since: row::nat(row.get(2)?, "first number of an item")?,
        kind,
        command: CommandId::from(row.get::<_, String>(4)?),
        attempt: row.get(5)?,
        epoch: row::nat(row.get(6)?, "epoch")?,
        at: row::time(row.get(7)?)?,
        data: row::payload(row.get(8)?)?,
    })
}
