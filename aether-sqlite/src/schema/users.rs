//! Views and triggers of the user's in a file that is brought over from an older version.
//!
//! Promise: one that SQLite cannot read is named with the way out, and so is each that reads the old view `history`.

use rusqlite::{Connection, OptionalExtension as _};

use aether_core::store::StoreError;

use crate::error::OpError;

/// An error of a migration. To rename a table, SQLite reads every view and trigger of the file, and fails on one that
/// is broken.
pub(super) fn explained(error: rusqlite::Error, conn: &Connection, store: &str) -> OpError {
    match broken(&error.to_string(), conn) {
        Ok(Some((kind, name))) => {
            let reason = format!(
                "it is of an older version, and its tables cannot be renamed while the {kind} `{name}` is broken \
                 ({error}): drop or repair {kind} `{name}` first, with the sqlite3 command line; nothing was changed"
            );
            OpError::Refused(StoreError::Open { store: store.into(), reason })
        }
        _ => error.into(),
    }
}

/// Kind and name of the object that SQLite's message is about.
fn broken(message: &str, conn: &Connection) -> rusqlite::Result<Option<(String, String)>> {
    let object = "SELECT type, name FROM main.sqlite_schema
         WHERE type IN ('view', 'trigger') AND instr(?1, 'error in ' || type || ' ' || name) > 0
         ORDER BY length(name) DESC LIMIT 1";
    conn.query_row(object, [message], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Warns of what reads the view `history`, which a file of an older version had.
pub(super) fn warn_of_orphans(conn: &Connection, store: &str) -> rusqlite::Result<()> {
    for (kind, name) in orphans(conn)? {
        tracing::warn!(
            %store, %kind, %name,
            "the file was brought over from an older version, and this object of yours reads the view `history`, which \
             is gone: make it again over `aether_history`; until then SQLite renames no table of the file"
        );
    }
    Ok(())
}

/// The views and triggers that read `history`, where there is no such table any more.
pub(super) fn orphans(conn: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut objects = conn.prepare(
        "SELECT type, name, sql FROM main.sqlite_schema WHERE type IN ('view', 'trigger') AND instr(lower(sql), 'history') > 0",
    )?;
    let mut objects = objects.query([])?;
    let mut found = Vec::new();
    while let Some(object) = objects.next()? {
        let (kind, name, sql): (String, String, String) = (object.get(0)?, object.get(1)?, object.get(2)?);
        if names_history(&sql) {
            found.push((kind, name));
        }
    }
    Ok(found)
}

fn names_history(sql: &str) -> bool {
    let words = sql.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
    words.into_iter().any(|word| word.eq_ignore_ascii_case("history"))
}
