//! Opening the file: checks, pragmas, migration.
//!
//! Promise: a file that is not ours, newer than this build, damaged or not writable is refused with the error that
//! says so, and is not changed.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use aether_core::store::StoreError;

use crate::error::OpError;
use crate::options::SqliteOptions;
use crate::schema;

/// The writer's connection, ready to use.
pub(crate) fn open(path: &Path, store: &str, options: &SqliteOptions) -> Result<Connection, StoreError> {
    connect(path, store, options).map_err(|error| error.into_open_error(path, store))
}

/// A connection to look at the file with, which neither makes it nor changes its tables; and the version of the engine's
/// tables in it, 0 where it has none. For writing, because a file whose log was left by a process that died can only be read
/// by who may write to it.
pub(crate) fn to_look(path: &Path, store: &str, patience: Duration) -> Result<(Connection, u32), StoreError> {
    let look = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(patience)?;
        let version = schema::look(&conn, store)?;
        Ok((conn, version))
    };
    look().map_err(|error: OpError| error.into_open_error(path, store))
}

fn connect(path: &Path, store: &str, options: &SqliteOptions) -> Result<Connection, OpError> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(64);
    keep_plans(&conn)?;
    schema::look(&conn, store)?;
    if conn.is_readonly("main")? {
        let reason = "the file can be read but not written: check its permissions and its file system".into();
        return Err(OpError::Refused(StoreError::ReadOnly { store: store.into(), reason }));
    }
    write_ahead(&conn, store, options.busy_timeout)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -8_192)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "wal_autocheckpoint", options.checkpoint_pages)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    schema::migrate(&conn, store)?;
    if let Some(pages) = options.max_pages {
        conn.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(conn)
}

/// Without it SQLite compiles a statement anew whenever a value is bound that stands in a condition of a table with a partial
/// index: the plan might depend on it. Ours never do (`SQLITE_DBCONFIG_ENABLE_QPSG`, <https://sqlite.org/queryplanner-ng.html>).
pub(crate) fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Switches the file to WAL. The switch does not wait for other connections by itself.
fn write_ahead(conn: &Connection, store: &str, patience: Duration) -> Result<(), OpError> {
    let deadline = Instant::now() + patience;
    loop {
        match conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let reason =
                    format!("journal mode is {mode:?} and cannot be WAL here: use a file on a local disk");
                return Err(OpError::Refused(StoreError::Open { store: store.into(), reason }));
            }
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
