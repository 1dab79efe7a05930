//! Copies of a file: made while it is in use, and put back in its place.
//!
//! Promise: a copy is one moment of the file, complete and synced before it has its name, and none replaces a file that
//! exists; what a restore replaces is kept under another name; neither touches a file that is not ours.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aether_core::store::StoreError;
use jiff::Timestamp;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::error::{OpError, opening, translate};
use crate::open::to_look;
use crate::{row, schema};

/// Pages that are copied between two reports.
const PAGES: i32 = 1_024;
/// Rest where the file is locked for the moment.
const REST: Duration = Duration::from_millis(20);
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
    /// When a run in it was changed last: what happened later is not in it. `None` where it has no run.
    pub newest: Option<Timestamp>,
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the file holds now.
    pub now: BackupReport,
    /// Where the file is that was replaced, if there was one. Its `-wal` is beside it where it could not be copied into it.
    pub replaced: Option<PathBuf>,
}

/// Copies the database at `from` into a new file at `to`, while engines use it: they are not held up, and the copy is the
/// file as it was at one moment, with everything that was acknowledged before the call. It is checked
/// (`PRAGMA quick_check`) and synced before it gets its name, and needs no `-wal` beside it. Blocks the thread; a
/// write-ahead log that is in use grows meanwhile.
///
/// # Errors
/// [`StoreError::Open`] where `from` is no database of an engine, or `to` exists or cannot be made;
/// [`StoreError::NewerSchema`]; [`StoreError::Full`]; [`StoreError::Corrupt`] where the copy does not pass the check. Then there is
/// no file at `to`.
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
    let (source, version) = source(from)?;
    // The name is taken at once: of two backups under one name one is refused.
    OpenOptions::new().write(true).create_new(true).open(to).map_err(|error| cannot_make(to, &error))?;
    let aside = beside(to, ".partial");
    let made = copy(&source, version, from, &aside, progress)
        .and_then(|report| put(&aside, to).map(|()| report).map_err(|error| cannot_make(to, &error)));
    if made.is_err() {
        for left in [&aside, to] {
            let _the_first_error_is_returned = fs::remove_file(left);
        }
    }
    made
}

/// Puts a copy of the backup at `from` in the place of the database at `to`, which no process may have open. The backup is
/// checked before anything is changed, and stays. The file that was there is kept under the name with `.replaced` behind it.
///
/// Read "What an older copy does not know" in `docs/backup.md` before an engine starts on it.
///
/// # Errors
/// As [`back_up`], and [`StoreError::Locked`] where a process has the database at `to` open. Then nothing is changed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (file, copy) = (folder.path().join("agent.db"), folder.path().join("monday.db"));
/// # drop(aether_sqlite::SqliteStore::open(&file)?);
/// # aether_sqlite::back_up(&file, &copy, |_| ())?;
/// # std::fs::remove_file(&file)?;
/// let restored = aether_sqlite::restore(&copy, &file, |_| ())?;
/// println!("{} runs, changed last at {:?}", restored.now.runs, restored.now.newest);
/// # Ok(()) }
/// ```
pub fn restore(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    progress: impl FnMut(BackupProgress),
) -> Result<Restored, StoreError> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let (source, version) = source(from)?;
    let aside = beside(to, ".partial");
    let done = copy(&source, version, from, &aside, progress).and_then(|now| {
        let failed = |error| cannot_make(to, &error);
        let exists = fs::exists(to).map_err(failed)?;
        if exists {
            alone(to)?;
        }
        let replaced = if exists { Some(set_aside(to).map_err(failed)?) } else { None };
        put(&aside, to).map_err(failed)?;
        Ok(Restored { now, replaced })
    });
    if done.is_err() {
        let _the_first_error_is_returned = fs::remove_file(&aside);
    }
    done
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

/// Makes the file at `aside`, complete, checked and synced.
fn copy(
    source: &Connection,
    version: u32,
    from: &Path,
    aside: &Path,
    mut progress: impl FnMut(BackupProgress),
) -> Result<BackupReport, StoreError> {
    let failed = |error: rusqlite::Error| translate(&error, &named(from));
    // What is left of a copy that was cut off.
    match fs::remove_file(aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_make(aside, &error)),
        _ => {}
    }
    let mut copy = Connection::open(aside).map_err(|error| opening(&error, aside, &named(aside)))?;
    {
        let backup = Backup::new(source, &mut copy).map_err(failed)?;
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
    let sql = format!("SELECT count(*), max(updated_at) FROM {}", schema::table_of_runs(version));
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?));
    let (runs, newest): (i64, _) = copy.query_row(&sql, [], read).map_err(failed)?;
    drop(copy);
    let file = File::options().read(true).write(true).open(aside);
    let bytes = file.and_then(|file| file.sync_all().and(file.metadata())).map(|data| data.len());
    Ok(BackupReport {
        bytes: bytes.map_err(|error| cannot_make(aside, &error))?,
        runs: u64::try_from(runs).unwrap_or(0),
        newest: newest
            .map(row::time)
            .transpose()
            .map_err(|error: OpError| error.into_store_error(&named(from)))?,
    })
}

/// Gives the finished file at `aside` its name.
fn put(aside: &Path, to: &Path) -> io::Result<()> {
    fs::rename(aside, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Where a folder cannot be opened as a file, the system syncs it by itself.
    File::open(folder).map_or(Ok(()), |folder| folder.sync_all())
}

/// Refuses a database that some connection has open. A damaged one has no other sign of it than its log.
fn alone(path: &Path) -> Result<(), StoreError> {
    let store = named(path);
    let look = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(REST)?;
        // SQLite leaves this mode only where nobody else has the file open, and copies the log into the file before.
        conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))
    };
    match look() {
        Err(error) => match translate(&error, &store) {
            StoreError::Corrupt { .. } => Ok(()),
            StoreError::Locked { .. } => {
                let reason = "stop every process that has it open before it is replaced".into();
                Err(StoreError::Locked { store, reason })
            }
            other => Err(other),
        },
        Ok(mode) if mode == "delete" => Ok(()),
        Ok(_) => {
            let reason = "stop every process that has it open before it is replaced".into();
            Err(StoreError::Locked { store, reason })
        }
    }
}

/// Moves the file and its log to the first free name.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut ending = String::from(".replaced");
    for number in 2.. {
        let new = beside(path, &ending);
        if !fs::exists(&new)? {
            fs::rename(path, &new)?;
            for log in ["-wal", "-shm"] {
                let (old, new) = (beside(path, log), beside(&new, log));
                match fs::rename(old, new) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            return Ok(new);
        }
        ending = format!(".replaced-{number}");
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn named(path: &Path) -> String {
    format!("sqlite {}", path.display())
}

fn cannot_make(path: &Path, error: &io::Error) -> StoreError {
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => "it exists: give each backup a name of its own".to_owned(),
        io::ErrorKind::StorageFull => {
            return StoreError::Full { store: named(path), reason: error.to_string() };
        }
        _ => error.to_string(),
    };
    StoreError::Open { store: named(path), reason }
}
