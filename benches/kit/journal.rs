//! Journals as they stand in the file of the embedded store, read with SQL: what an engine's reading is measured against.
//!
//! Promise: `read` sees every frame of a run, in order, and checks what it is asked to check.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use aether::jiff::Timestamp;
use aether_core::journal::{CHAIN_START, chain};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use super::{Result, memory};

/// How much is in a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) events: u64,
    /// Bytes of the events' own JSON, without what stands between them.
    pub(crate) json_bytes: u64,
}

/// What a reading found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) frames: u64,
    pub(crate) events: u64,
    /// Bytes of the frames' texts.
    pub(crate) bytes: u64,
}

fn open(database: &Path) -> Result<Connection> {
    Ok(Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// The events of all runs.
pub(crate) fn sizes(database: &Path) -> Result<Sizes> {
    // A frame of n events has two brackets and n - 1 commas.
    let sql = "SELECT coalesce(sum(count), 0), coalesce(sum(octet_length(events) - count - 1), 0) FROM aether_journal";
    let (events, bytes): (i64, i64) =
        open(database)?.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Sizes { events: events.try_into()?, json_bytes: bytes.try_into()? })
}

/// Number of the newest frame of all runs.
pub(crate) fn newest(database: &Path) -> Result<i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM aether_journal";
    Ok(open(database)?.query_row(sql, [], |row| row.get(0))?)
}

/// The texts of at most so many frames behind this number, in the order in which they were written.
pub(crate) fn texts(database: &Path, after: i64, limit: u32) -> Result<Vec<Arc<str>>> {
    let connection = open(database)?;
    let sql = "SELECT events FROM aether_journal WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut rows = connection.prepare(sql)?;
    let texts = rows.query_map((after, limit), |row| row.get::<_, Arc<str>>(0))?;
    Ok(texts.collect::<std::result::Result<_, _>>()?)
}

/// Reads and parses the frames of a run, and checks their chain where `chained` asks for it.
pub(crate) fn read(database: &Path, run: &str, chained: bool) -> Result<Found> {
    let connection = open(database)?;
    let sql = "SELECT position, at, events, chain FROM aether_journal
         WHERE run_no = (SELECT no FROM aether_runs WHERE id = ?1) ORDER BY position";
    let mut statement = connection.prepare(sql)?;
    let (mut rows, mut found, mut before) = (statement.query([run])?, Found::default(), CHAIN_START);
    while let Some(row) = rows.next()? {
        let (position, at) = (u64::try_from(row.get::<_, i64>(0)?)?, row.get(1)?);
        let text = row.get_ref(2)?.as_str()?;
        if position != found.events {
            return Err(format!("a frame at {position} follows {} events", found.events).into());
        }
        if chained {
            before = chain(&before, position, Timestamp::from_microsecond(at)?, text);
            if before.as_slice() != row.get_ref(3)?.as_blob()? {
                return Err(format!("the chain breaks at {position}").into());
            }
        }
        let events: Vec<Value> = serde_json::from_str(text)?;
        found.frames += 1;
        found.events += events.len() as u64;
        found.bytes += text.len() as u64;
    }
    Ok(found)
}

/// As [`read`], and prints how long that took and by how much the memory of this process grew: for a second process.
pub(crate) fn print_reading(database: &str, run: &str, chained: bool) -> Result<()> {
    let (before, begun) = (memory::resident(), Instant::now());
    let found = read(Path::new(database), run, chained)?;
    let seconds = begun.elapsed().as_secs_f64();
    let figures = json!({
        "events": found.events, "bytes": found.bytes, "seconds": seconds, "grown_mb": memory::peak_mb_beyond(before),
    });
    println!("{figures}");
    Ok(())
}

/// Reads the rows of all runs that have not ended, and the frames of each, and prints how long that took: for a second
/// process.
pub(crate) fn print_unfinished(database: &str) -> Result<()> {
    let begun = Instant::now();
    let connection = open(Path::new(database))?;
    let sql =
        "SELECT * FROM aether_runs WHERE status NOT IN ('completed', 'failed', 'rejected', 'cancelled')";
    let (mut all, mut one) = (
        connection.prepare(sql)?,
        connection.prepare("SELECT * FROM aether_journal WHERE run_no = ?1 ORDER BY position")?,
    );
    let (columns, mut rows, mut runs, mut bytes) = (all.column_count(), all.query([])?, 0_u32, 0);
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            bytes += length(row.get_ref(column)?);
        }
        let mut frames = one.query([row.get::<_, i64>("no")?])?;
        while let Some(frame) = frames.next()? {
            bytes += length(frame.get_ref("events")?) + length(frame.get_ref("chain")?);
        }
        runs += 1;
    }
    println!("{}", json!({ "runs": runs, "bytes": bytes, "seconds": begun.elapsed().as_secs_f64() }));
    Ok(())
}

fn length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => size_of::<i64>(),
    }
}
