//! Streams in the file.
//!
//! Promise: a write takes effect whole, inside the writer's transaction, and only at the epoch of the run's worker.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use aether_core::id::{CommandId, RunId};
use aether_core::payload::Payload;
use aether_core::store::{Append, StreamEnd, StreamItem, StreamKind, StreamWrite};
use jiff::Timestamp;

use crate::error::OpError;
use crate::row;

const OWNED: &str = "SELECT no FROM aether_runs WHERE id = ?1 AND epoch = ?2
    AND status NOT IN ('completed', 'failed', 'rejected', 'cancelled')";

const COLUMNS: &str = "stream, seq, since, kind, command, attempt, epoch, at, data";

/// Open items of a command, up to an attempt of an epoch: see [`StreamEnd`].
const OPEN: &str = "run_no = ?1 AND stream = ?2 AND command = ?3 AND kind IN (0, 2)
    AND (epoch < ?4 OR attempt <= ?5)";

/// The streams of one run as one command writes them, on the writer's connection.
struct Streams<'c> {
    conn: &'c Connection,
    no: i64,
    command: &'c CommandId,
    epoch: i64,
    /// Open items of the epoch that belong to later attempts are left alone.
    attempt: u32,
    at: Timestamp,
}

/// Makes one write; `None` where it is refused.
pub(crate) fn write(conn: &Connection, write: &StreamWrite) -> Result<Option<Vec<StreamItem>>, OpError> {
    let epoch = row::int(write.epoch);
    let found = conn.prepare_cached(OWNED)?.query_row(params![write.run.as_str(), epoch], |row| row.get(0));
    let Some(no) = found.optional()? else { return Ok(None) };
    let StreamWrite { command, attempt, at, .. } = write;
    let streams = Streams { conn, no, command, epoch, attempt: *attempt, at: *at };
    streams.chunk(write).map(Some)
}

/// What an admitted append says of streams.
pub(crate) fn end(conn: &Connection, no: i64, append: &Append) -> rusqlite::Result<()> {
    for ended in &append.streams {
        let StreamEnd { command, attempt, .. } = ended;
        let epoch = row::int(append.epoch);
        let streams = Streams { conn, no, command, epoch, attempt: *attempt, at: append.at };
        for stream in streams.open()? {
            match ended.kept(&stream) {
                Some(digest) if streams.fold(&stream)? => {
                    let digest = serde_json::Value::from(digest.as_str()).to_string();
                    streams.insert(&stream, StreamKind::Committed, None, 0, &digest)?;
                }
                _ => drop(streams.restart(&stream)?),
            }
        }
    }
    Ok(())
}

impl Streams<'_> {
    fn chunk(&self, write: &StreamWrite) -> Result<Vec<StreamItem>, OpError> {
        let (stream, place) = (&*write.stream, row::int(write.place()));
        let mut written = Vec::new();
        if write.part == 0 {
            if self.last_place(stream)?.is_some_and(|last| last >= place) {
                return Ok(written);
            }
            if let Some((seq, since)) = self.restart(stream)? {
                let (kind, data) = (StreamKind::Restarted, Payload::null());
                written.push(self.item(stream, seq, since, kind, data)?);
            }
        } else if self.newest_place(stream)?.is_none_or(|newest| newest + 1 != place) {
            return Ok(written);
        }
        let seq = self.insert(stream, StreamKind::Chunk, None, place, write.items.as_str())?;
        written.push(self.item(stream, seq, seq, StreamKind::Chunk, write.items.clone())?);
        Ok(written)
    }

    /// The greatest place of what the command has written in this epoch, open or not.
    fn last_place(&self, stream: &str) -> Result<Option<i64>, OpError> {
        let sql = "SELECT max(part) FROM aether_streams
                   WHERE run_no = ?1 AND stream = ?2 AND command = ?3 AND epoch = ?4";
        let params = params![self.no, stream, self.command.as_str(), self.epoch];
        Ok(self.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
    }

    /// The place of the command's newest open chunk.
    fn newest_place(&self, stream: &str) -> Result<Option<i64>, OpError> {
        let sql =
            "SELECT part FROM aether_streams WHERE run_no = ?1 AND stream = ?2 AND command = ?3 AND kind = 0
                   ORDER BY seq DESC LIMIT 1";
        let params = params![self.no, stream, self.command.as_str()];
        Ok(self.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
    }

    /// The streams in which the command has open items.
    fn open(&self) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT DISTINCT stream FROM aether_streams WHERE run_no = ?1 AND command = ?2
                   AND kind IN (0, 2) ORDER BY stream";
        let mut statement = self.conn.prepare_cached(sql)?;
        let streams = statement.query_map(params![self.no, self.command.as_str()], |row| row.get(0))?;
        streams.collect()
    }

    /// Puts an item of kind `Restarted` in the place of the open ones, if there are any; gives its number, and theirs that was
    /// the first.
    fn restart(&self, stream: &str) -> rusqlite::Result<Option<(i64, i64)>> {
        let (no, command) = (self.no, self.command.as_str());
        let sql = format!(
            "SELECT min(since), coalesce(max(part) FILTER (WHERE epoch = ?4), 0) FROM aether_streams WHERE {OPEN}"
        );
        let open = params![no, stream, command, self.epoch, self.attempt];
        let row = |row: &Row<'_>| Ok((row.get::<_, Option<i64>>(0)?, row.get(1)?));
        let (Some(since), place) = self.conn.prepare_cached(&sql)?.query_row(open, row)? else {
            return Ok(None);
        };
        let restarted = self.insert(stream, StreamKind::Restarted, Some(since), place, "null")?;
        let sql = format!("DELETE FROM aether_streams WHERE {OPEN} AND seq < ?6");
        let open = params![no, stream, command, self.epoch, self.attempt, restarted];
        self.conn.prepare_cached(&sql)?.execute(open)?;
        Ok(Some((restarted, since)))
    }

    /// Puts one item in the place of the command's chunks; says whether there were any.
    fn fold(&self, stream: &str) -> rusqlite::Result<bool> {
        let params = params![self.no, stream, self.command.as_str(), self.epoch, self.attempt];
        let sql = format!(
            "UPDATE aether_streams SET kind = 1,
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

    /// Writes an item; gives its number.
    fn insert(
        &self,
        stream: &str,
        kind: StreamKind,
        since: Option<i64>,
        place: i64,
        data: &str,
    ) -> rusqlite::Result<i64> {
        // Not one statement: SQLite keeps a journal of its own for an insertion that selects.
        let last = "SELECT coalesce(max(seq), 0) FROM aether_streams WHERE run_no = ?1 AND stream = ?2";
        let last: i64 =
            self.conn.prepare_cached(last)?.query_row(params![self.no, stream], |row| row.get(0))?;
        let seq = last + 1;
        let sql =
            "INSERT INTO aether_streams(run_no, stream, seq, since, kind, command, attempt, epoch, at, data, part)
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let (command, at) = (self.command.as_str(), self.at.as_microsecond());
        let (no, attempt, epoch, since) = (self.no, self.attempt, self.epoch, since.unwrap_or(seq));
        let params = params![no, stream, seq, since, kind.number(), command, attempt, epoch, at, data, place];
        self.conn.prepare_cached(sql)?.execute(params)?;
        Ok(seq)
    }

    /// The item that was written under this number.
    fn item(
        &self,
        stream: &str,
        seq: i64,
        since: i64,
        kind: StreamKind,
        data: Payload,
    ) -> Result<StreamItem, OpError> {
        Ok(StreamItem {
            stream: stream.to_owned(),
            seq: row::nat(seq, "number of an item")?,
            since: row::nat(since, "first number of an item")?,
            kind,
            command: self.command.clone(),
            attempt: self.attempt,
            epoch: row::nat(self.epoch, "epoch")?,
            at: self.at,
            data,
        })
    }
}

/// The commands of a run that have open chunks.
pub(crate) fn open(conn: &Connection, run: &RunId) -> Result<Vec<CommandId>, OpError> {
    let sql = "SELECT DISTINCT command FROM aether_streams
               WHERE run_no = (SELECT no FROM aether_runs WHERE id = ?1) AND kind = 0 ORDER BY command";
    let mut statement = conn.prepare_cached(sql)?;
    let commands = statement.query_map(params![run.as_str()], |row| row.get::<_, String>(0))?;
    Ok(commands.map(|command| command.map(CommandId::from)).collect::<rusqlite::Result<_>>()?)
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
