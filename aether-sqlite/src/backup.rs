//! Copies of a file, made while it is in use.
//!
//! Promise: a copy is one moment of the file, complete and synced before it has its name; it replaces no file, and is for
//! those who may read the file; a file that is not ours is left alone.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use aether_core::store::StoreError;
use jiff::Timestamp;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::{opening, translate};
use crate::open::to_look;
use crate::place::{Partial, give_mode};
use crate::{row, schema};

/// Pages that are copied between two reports.
const PAGES: i32 = 1_024;
/// Rest where the file is locked for the moment.
pub(crate) const REST: Duration = Duration::from_millis(20);
/// How long others are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupProgress {
    /// Pages of the copy that are written.
    pub copied: u64,
    /// Pages of the file.
    pub pages: u64,
}

/// What a copy holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Its length in bytes.
    pub bytes: u64,
    /// Number of its runs, ended ones too.
    pub runs: u64,
    /// When a run in it was changed last: what happened later is not in it. `None` where it has no run. A damaged time of a
    /// run counts as the nearest one that there is.
    pub newest: Option<Timestamp>,
}

/// Copies the database at `from` into a new file at `to`, while engines use it: they are not held up, and the copy is the
/// file as it was at one moment, with everything that was acknowledged before the call. It is checked
/// (`PRAGMA quick_check`) and synced before it gets its name, has the mode of `from`, and needs no `-wal` beside it. Blocks
/// the thread; a write-ahead log that is in use grows meanwhile.
///
/// It is made under a name that begins with that of `to` and `.partial-`; a process that is killed leaves that file, which
/// may be deleted.
///
/// # Errors
/// [`StoreError::Open`] where `from` is no database of an engine, or `to` exists or cannot be made;
/// [`StoreError::NewerSchema`]; [`StoreError::Full`]; [`StoreError::Corrupt`] where the copy does not pass the check. Then
/// nothing was made, and what was at `to` is as it was.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (file, copy) = (folder.path().join("agent.db"), folder.path().join("monday.db"));
/// let store = aether_sqlite::SqliteStore::open(&file)?;
/// let report = aether_sqlite::back_up(&file, &copy, |at| println!("{} of {}", at.copied, at.pages))?;
/// assert_eq!(report.runs, 0);
/// assert!(aether_sqlite::back_up(&file, &copy, |_| ()).is_err(), "no backup replaces another one");
/// # Ok(()) }
/// ```
pub fn back_up(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    progress: impl FnMut(BackupProgress),
) -> Result<BackupReport, StoreError> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let failed = |error: io::Error| cannot_make(to, &error);
    // Before the work; after it, the name is taken only if it is free.
    if fs::symlink_metadata(to).is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let partial = Partial::beside(to).map_err(failed)?;
    let report = copy(from, &partial, progress)?;
    let mode = fs::metadata(from).and_then(|of| give_mode(partial.path(), &of));
    mode.and_then(|()| partial.name(to)).map_err(failed)?;
    Ok(report)
}

/// The database at `path`, to read, in a transaction that keeps one moment of it; and the version of its tables.
fn source(path: &Path) -> Result<(Connection, u32), StoreError> {
    let store = named(path);
    let (conn, version) = to_look(path, &store, PATIENCE)?;
    if version == 0 {
        let reason = "it holds no tables of an engine".to_owned();
        return Err(StoreError::Open { store, reason });
    }
    let begun = conn.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;");
    begun.map_err(|error| opening(&error, path, &store))?;
    Ok((conn, version))
}

/// Fills the file with a copy of the one at `from`: complete, checked and synced.
pub(crate) fn copy(
    from: &Path,
    to: &Partial,
    mut progress: impl FnMut(BackupProgress),
) -> Result<BackupReport, StoreError> {
    let failed = |error: rusqlite::Error| translate(&error, &named(from));
    let (source, version) = source(from)?;
    let path = to.path();
    let mut copy = Connection::open(path).map_err(|error| opening(&error, path, &named(path)))?;
    {
        let backup = Backup::new(&source, &mut copy).map_err(failed)?;
        loop {
            let step = backup.step(PAGES).map_err(failed)?;
            let at = backup.progress();
            let pages = u64::try_from(at.pagecount).unwrap_or(0);
            progress(BackupProgress {
                copied: pages.saturating_sub(u64::try_from(at.remaining).unwrap_or(0)),
                pages,
            });
            match step {
                StepResult::Done => break,
                StepResult::Busy | StepResult::Locked => std::thread::sleep(REST),
                _ => {}
            }
        }
    }
    // A copy that is complete without a log: it can be read where nothing can be written.
    let mode: String =
        copy.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).map_err(failed)?;
    let found: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if mode != "delete" || found != "ok" {
        let reason = format!("a copy of it does not pass SQLite's check: {found}");
        return Err(StoreError::Corrupt { store: named(from), reason });
    }
    let (runs, journal) = schema::main_tables(version);
    let sql = format!(
        "SELECT count(*), max(max(updated_at), coalesce((SELECT at FROM {journal} ORDER BY seq DESC LIMIT 1), 0))
         FROM {runs}"
    );
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?));
    let (runs, newest): (i64, _) = copy.query_row(&sql, [], read).map_err(failed)?;
    drop(copy);
    Ok(BackupReport {
        bytes: to.sync().map_err(|error| cannot_make(path, &error))?,
        runs: u64::try_from(runs).unwrap_or(0),
        // A damaged time of one run is no reason to have no copy.
        newest: newest.map(row::nearest_time),
    })
}

pub(crate) fn named(path: &Path) -> String {
    format!("sqlite {}", path.display())
}

/// What is said where a file cannot be made, or not under this name.
pub(crate) fn cannot_make(path: &Path, error: &io::Error) -> StoreError {
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => "it exists: give each backup a name of its own".to_owned(),
        io::ErrorKind::StorageFull => {
            return StoreError::Full { store: named(path), reason: error.to_string() };
        }
        _ => error.to_string(),
    };
    StoreError::Open { store: named(path), reason }
}
