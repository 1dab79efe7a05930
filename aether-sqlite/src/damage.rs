//! What is wrong with the file itself, whatever its rows say.
//!
//! Promise: reads only; a file that is so damaged that a look at it fails is a finding and no error.

use aether_core::store::StoreError;
use rusqlite::Connection;

use crate::error::{OpError, translate};

/// The most problems that SQLite names.
const NAMED: u32 = 100;

/// Tables with rows of runs, by their numbers.
const TABLES: [&str; 10] = [
    "aether_journal",
    "aether_ledger",
    "aether_inbox",
    "aether_effects",
    "aether_progress",
    "aether_streams",
    "aether_snapshots",
    "aether_labels",
    "aether_waits",
    "aether_unlisted",
];

/// What SQLite's own check finds in the file, and which rows belong to runs that are not there.
pub(crate) fn damage(conn: &Connection, store: &str) -> Result<Vec<String>, OpError> {
    let mut found = readable(pages(conn), store, "SQLite's check of it")?;
    for table in TABLES {
        found.append(&mut readable(orphans(conn, table), store, table)?);
    }
    Ok(found)
}

/// A file that is damaged where it was looked at has that for a finding.
fn readable(found: rusqlite::Result<Vec<String>>, store: &str, what: &str) -> Result<Vec<String>, OpError> {
    match found {
        Ok(found) => Ok(found),
        Err(error) => match translate(&error, store) {
            StoreError::Corrupt { reason, .. } => Ok(vec![format!("{what} cannot be read: {reason}")]),
            _ => Err(error.into()),
        },
    }
}

fn pages(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare(&format!("PRAGMA integrity_check({NAMED})"))?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    // SQLite puts several lines into one row.
    Ok(found.iter().flat_map(|row| row.lines()).filter(|line| *line != "ok").map(str::to_owned).collect())
}

fn orphans(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = format!(
        "SELECT run_no, count(*) FROM {table} WHERE run_no NOT IN (SELECT no FROM aether_runs) GROUP BY run_no"
    );
    let mut statement = conn.prepare(&sql)?;
    let found = statement.query_map([], |row| {
        let (run, rows): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(format!("{table} has {rows} rows of run number {run}, and aether_runs has no such run"))
    })?;
    found.collect()
}
