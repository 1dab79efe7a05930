//! Opening the file: checks, pragmas, migration.
//!
//! Promise: a file that is not ours, newer than this build, damaged or not writable is refused with the error that
//! says so, and is not changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use aether_core::store::StoreError;

use crate::error::OpError;
use crate::identity::identity_of;
use crate::options::SqliteOptions;
use crate::place::{self, beside};
use crate::schema;

/// How often a file is opened anew that was replaced meanwhile.
const TRIES: usize = 3;

/// The writer's connection, ready to use.
pub(crate) fn open(path: &Path, store: &str, options: &SqliteOptions) -> Result<Connection, StoreError> {
    try_to_open(path, store, options).map_err(|error| error.into_open_error(path, store))
}

/// As [`open`], with an error that still says whether it may pass.
pub(crate) fn try_to_open(path: &Path, store: &str, options: &SqliteOptions) -> Result<Connection, OpError> {
    for _ in 0..TRIES {
        if let Some(conn) = connect(path, store, options)? {
            return Ok(conn);
        }
    }
    let reason = format!("{} was replaced again and again while it was opened: start again", path.display());
    Err(OpError::Refused(StoreError::Lost { store: store.into(), reason }))
}

/// A connection to look at the file with, and the version of the engine's tables in it, 0 where it has none. See [`Look`].
pub(crate) fn to_look(path: &Path, store: &str, patience: Duration) -> Result<(Connection, u32), StoreError> {
    let look = || {
        let conn = Look::at(path).connect(patience)?;
        let version = schema::look(&conn, store)?;
        Ok((conn, version))
    };
    look().map_err(|error: OpError| error.into_open_error(path, store))
}

/// How a file is looked at: connections that neither make it nor change it.
///
/// It is opened for writing where that is allowed, because a file whose log was left by a process that died can only be read
/// by who may write to it; the log stays as it is. One that cannot be written and has no log is read as it lies there.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    name: PathBuf,
    flags: OpenFlags,
    /// Others have made a log. Decided once: a connection makes one, too, and the last that is closed removes it.
    has_log: bool,
}

impl Look {
    pub(crate) fn at(path: &Path) -> Self {
        let file = place::of(path).unwrap_or_else(|_| path.to_owned());
        let has = |log| fs::metadata(beside(&file, log)).is_ok();
        let has_log = has("-wal");
        if !has_log && !has("-journal") && file.is_file() && !may_write(&file) {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            return Self { name: unchanging(&file).into(), flags, has_log };
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self { name: path.to_owned(), flags, has_log }
    }

    pub(crate) fn connect(&self, patience: Duration) -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(&self.name, self.flags)?;
        conn.busy_timeout(patience)?;
        conn.pragma_update(None, "query_only", true)?;
        // Else the last connection that closes a file copies the log into it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, self.has_log)?;
        Ok(conn)
    }
}

/// The URI of a file that does not change while it is open.
fn unchanging(file: &Path) -> String {
    format!("file:{}?immutable=1", place::in_uri(file))
}

#[cfg(unix)]
fn may_write(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn may_write(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|data| !data.permissions().readonly())
}

/// `None` where the file was replaced meanwhile, and the connection is to the old one.
fn connect(path: &Path, store: &str, options: &SqliteOptions) -> Result<Option<Connection>, OpError> {
    let file = identity_of(path);
    let is_replaced = || file.is_some() && identity_of(path) != file;
    let conn = Connection::open(path)?;
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(64);
    keep_plans(&conn)?;
    // A restore is waited for here, and must not find a log of the file that it has replaced.
    let found = schema::look(&conn, store)?;
    if !options.migrate && (1..schema::SUPPORTED).contains(&found) {
        let (store, supported) = (store.to_owned(), schema::SUPPORTED);
        return Err(OpError::Refused(StoreError::OlderSchema { store, found, supported }));
    }
    if is_replaced() {
        return Ok(None);
    }
    if conn.is_readonly("main")? {
        let reason = "the file can be read but not written: check its permissions and its file system".into();
        return Err(OpError::Refused(StoreError::ReadOnly { store: store.into(), reason }));
    }
    write_ahead(&conn, store, options.busy_timeout)?;
    sync_fully(&conn)?;
    conn.pragma_update(None, "cache_size", -8_192)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "wal_autocheckpoint", options.checkpoint_pages)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // From here on nobody can replace it: a restore refuses a file that is open.
    if is_replaced() {
        return Ok(None);
    }
    schema::migrate(&conn, store)?;
    if let Some(pages) = options.max_pages {
        conn.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(Some(conn))
}

/// Without it SQLite compiles a statement anew whenever a value is bound that stands in a condition of a table with a partial
/// index: the plan might depend on it. Ours never do (`SQLITE_DBCONFIG_ENABLE_QPSG`, <https://sqlite.org/queryplanner-ng.html>).
pub(crate) fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// What is committed or copied is on the medium, and not only in a cache of it. On macOS a sync says nothing of that unless it
/// is asked to (`F_FULLFSYNC`); elsewhere it does, and the last two change nothing.
pub(crate) fn sync_fully(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "fullfsync", true)?;
    conn.pragma_update(None, "checkpoint_fullfsync", true)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_writes_syncs_through_the_caches_of_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let conn = open(&folder.path().join("a.db"), "test", &SqliteOptions::default()).unwrap();
        for (pragma, value) in [("synchronous", 2), ("fullfsync", 1), ("checkpoint_fullfsync", 1)] {
            let found: i64 = conn.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0)).unwrap();
            assert_eq!(found, value, "{pragma}");
        }
    }
}
