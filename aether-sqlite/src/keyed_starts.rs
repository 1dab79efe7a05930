//! Keyed starts in the file.
//!
//! Promise: a write replaces only the revision that it names.

use rusqlite::{Connection, Row, params};

use aether_core::store::{DueStarts, KeyedStart};

use crate::batch::Batch;
use crate::error::OpError;
use crate::row;

/// Columns of a [`KeyedStart`], in the order [`read`] reads them.
const COLUMNS: &str = "name, workflow, due_at, record, revision";

impl Batch<'_> {
    /// Writes a keyed start in place of the revision `replaces`; says whether that was there.
    pub(crate) fn put_keyed_start(&mut self, start: &KeyedStart, replaces: u64) -> Result<bool, OpError> {
        let KeyedStart { name, workflow, due_at, record, revision } = start;
        let sql = if replaces == 0 {
            "INSERT INTO aether_keyed_starts(name, workflow, due_at, record, revision)
             SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?6 = 0 ON CONFLICT DO NOTHING"
        } else {
            "UPDATE aether_keyed_starts SET workflow = ?2, due_at = ?3, record = ?4, revision = ?5
             WHERE name = ?1 AND revision = ?6"
        };
        let (due_at, revision, replaces) = (due_at.as_microsecond(), row::int(*revision), row::int(replaces));
        let written = self.conn.prepare_cached(sql)?.execute(params![
            name,
            workflow,
            due_at,
            record.as_str(),
            revision,
            replaces
        ])?;
        Ok(written == 1)
    }

    /// Deletes a keyed start of this revision; says whether it was there.
    pub(crate) fn remove_keyed_start(&mut self, name: &str, revision: u64) -> Result<bool, OpError> {
        let mut statement =
            self.conn.prepare_cached("DELETE FROM aether_keyed_starts WHERE name = ?1 AND revision = ?2")?;
        Ok(statement.execute(params![name, row::int(revision)])? == 1)
    }
}

/// The keyed start of this name.
pub(crate) fn of_name(conn: &Connection, name: &str) -> Result<Option<KeyedStart>, OpError> {
    let sql = format!("SELECT {COLUMNS} FROM aether_keyed_starts WHERE name = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([name])?;
    rows.next()?.map(read).transpose()
}

/// Keyed starts whose time has come, by that time and their names.
pub(crate) fn due(conn: &Connection, query: &DueStarts) -> Result<Vec<KeyedStart>, OpError> {
    let workflows = row::json_list(query.workflows.iter().map(String::as_str));
    let sql = format!(
        "SELECT {COLUMNS} FROM aether_keyed_starts
         WHERE due_at <= ?1 AND (due_at, name) > (?2, ?3)
             AND workflow IN (SELECT value FROM json_each(?4))
         ORDER BY due_at, name"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let (due, name) = match &query.after {
        Some((due, name)) => (due.as_microsecond(), name.as_str()),
        None => (i64::MIN, ""),
    };
    let rows = statement.query(params![query.now.as_microsecond(), due, name, workflows])?;
    row::readable(rows, query.limit, "a keyed start", |row| read(row).map(Some))
}

fn read(row: &Row<'_>) -> Result<KeyedStart, OpError> {
    Ok(KeyedStart {
        name: row.get(0)?,
        workflow: row.get(1)?,
        due_at: row::time(row.get(2)?)?,
        record: row::payload(row.get(3)?)?,
        revision: row::nat(row.get(4)?, "revision")?,
    })
}
