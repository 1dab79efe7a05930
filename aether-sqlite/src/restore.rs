//! A backup put in the place of a file.
//!
//! Promise: nothing is changed before the copy is complete, checked and synced, and nobody else has the file open; from
//! then on there is a file under its name at every moment, the old one or the new one; no log of another file lies beside
//! it; what was there is kept under another name.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use aether_core::store::StoreError;
use rusqlite::{Connection, OpenFlags};

use crate::backup::{BackupProgress, BackupReport, REST, cannot_make, copy, named};
use crate::error::translate;
use crate::place::{self, Partial, beside, give_mode, give_owner, sync_folder};
use crate::prepare::lock_of;

/// What SQLite keeps beside a database, and reads into whatever file has the name of the database.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A shorter file is no database: SQLite takes it for a new one, and would delete its log, in which all of it may be.
const SMALLEST: u64 = 512;

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the file holds now.
    pub now: BackupReport,
    /// Where the file is that was replaced, if there was one.
    pub replaced: Option<PathBuf>,
    /// Where the logs are that lay at its place and were not copied into it: of a damaged file, or of one that had been
    /// moved away without them. They have the name of [`replaced`](Self::replaced) with `-wal` and so on behind it.
    pub logs: Vec<PathBuf>,
}

/// Puts a copy of the backup at `from` in the place of the database at `to`, which no process may have open. The backup is
/// checked before anything is changed, and stays. The file that was there is kept under the name with `.replaced` behind it,
/// and so are logs that lie there, also where the file itself is gone. The new file has the owner and the mode of the one
/// that was there, or where there was none the caller as its owner and the mode of the backup. Where `to` is a link, the file
/// that it leads to is replaced.
///
/// There is a file under the name at every moment: a process that starts on it meanwhile waits, and opens the new one. (Where
/// the file system has no hard links, the name is free for a moment.) Of two restores at a time one is refused.
///
/// Read "What an older copy does not know" in `docs/backup.md` before an engine starts on it.
///
/// # Errors
/// As [`back_up`](crate::back_up); [`StoreError::Locked`] where a process has the database at `to` open, prepares it or
/// restores it; [`StoreError::Open`] where the new file cannot be given to the owner of the old one. Then nothing is changed.
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
    let (from, given) = (from.as_ref(), to.as_ref());
    let failed = |error: io::Error| cannot_make(given, &error);
    let to = place::of(given).map_err(failed)?;
    let old = there(&to).map_err(failed)?;
    let _only_one = lock(&to, old.as_ref())?;
    let partial = Partial::beside(&to).map_err(failed)?;
    let now = copy(from, &partial, progress)?;
    match &old {
        Some(old) => give_owner(partial.path(), old).and_then(|()| give_mode(partial.path(), old)),
        None => fs::metadata(from).and_then(|from| give_mode(partial.path(), &from)),
    }
    .map_err(failed)?;
    let closed = old.as_ref().map(|old| keep_out(&to, old)).transpose()?;
    let (replaced, logs) = put(partial, &to, old.is_some()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => in_use(&to),
        _ => failed(error),
    })?;
    // Only now: whoever waited for the old file finds that it is no more under its name.
    drop(closed);
    Ok(Restored { now, replaced, logs })
}

/// The file that is to be replaced, if there is one.
fn there(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Ok(data) if data.is_file() => Ok(Some(data)),
        Ok(_) => Err(io::Error::other("it is no regular file, so nothing is put in its place")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps other restores of the file, and those who prepare it, away until it is dropped.
fn lock(path: &Path, old: Option<&fs::Metadata>) -> Result<File, StoreError> {
    let place = lock_of(path);
    let is_new = !place.exists();
    let failed = |error: io::Error| cannot_make(&place, &error);
    let lock = File::options().create(true).truncate(false).write(true).open(&place).map_err(failed)?;
    if let Some(old) = old.filter(|_| is_new) {
        // For those who prepare the file later. Where it cannot be given, nor can the copy, which says so.
        let _it_is_said_of_the_copy = give_owner(&place, old).and_then(|()| give_mode(&place, old));
    }
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let reason = "another process restores or prepares it: wait until that is done".into();
            Err(StoreError::Locked { store: named(path), reason })
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn in_use(path: &Path) -> StoreError {
    let reason = "stop every process that has it open before it is replaced".into();
    StoreError::Locked { store: named(path), reason }
}

/// Refuses a database that some connection has open, and keeps all others waiting until it is dropped. `None` for a damaged
/// one, which nobody can be kept away from.
fn keep_out(path: &Path, old: &fs::Metadata) -> Result<Option<Connection>, StoreError> {
    if old.len() < SMALLEST && beside(path, "-wal").exists() {
        return Ok(None);
    }
    let look = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(REST)?;
        conn.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        // SQLite leaves the mode only where nobody else has the file open, and copies the log into the file before.
        let mode: String = conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
        conn.execute_batch("BEGIN EXCLUSIVE")?;
        Ok((conn, mode))
    };
    match look() {
        Ok((conn, mode)) if mode == "delete" => {
            // What it would undo was undone; a connection that keeps others out leaves it until it is closed.
            let _there_may_be_none = fs::remove_file(beside(path, "-journal"));
            Ok(Some(conn))
        }
        Ok(_) => Err(in_use(path)),
        Err(error) => match translate(&error, &named(path)) {
            StoreError::Corrupt { .. } => Ok(None),
            StoreError::Locked { .. } => Err(in_use(path)),
            other => Err(other),
        },
    }
}

/// Puts the finished copy in its place, and says where the file and the logs are that were there.
fn put(partial: Partial, to: &Path, exists: bool) -> io::Result<(Option<PathBuf>, Vec<PathBuf>)> {
    let aside = free_name(to)?;
    // First a second name for the old file, so that its own is never free.
    let is_linked = exists && fs::hard_link(to, &aside).is_ok();
    let mut moved = Vec::new();
    let done = move_logs(to, &aside, &mut moved)
        // A log must not come back beside the new file when the power fails.
        .and_then(|()| sync_folder(to))
        .and_then(|()| match (exists, is_linked) {
            (_, true) => partial.replace(to),
            (true, false) => {
                fs::rename(to, &aside)?;
                partial.name(to).inspect_err(|_| back(&aside, to))
            }
            (false, false) => partial.name(to),
        });
    if let Err(error) = done {
        moved.iter().for_each(|(old, new)| back(new, old));
        if is_linked {
            let _the_first_error_is_returned = fs::remove_file(&aside);
        }
        return Err(error);
    }
    Ok((exists.then_some(aside), moved.into_iter().map(|(_, new)| new).collect()))
}

/// The first name that neither a file nor a log has.
fn free_name(path: &Path) -> io::Result<PathBuf> {
    let mut ending = String::from(".replaced");
    for number in 2.. {
        let new = beside(path, &ending);
        let mut names = [""].into_iter().chain(LOGS).map(|log| beside(&new, log));
        if names.all(|name| fs::symlink_metadata(name).is_err()) {
            return Ok(new);
        }
        ending = format!(".replaced-{number}");
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Moves the logs that lie beside a file, and notes from where to where.
fn move_logs(from: &Path, to: &Path, moved: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    for log in LOGS {
        let (old, new) = (beside(from, log), beside(to, log));
        match fs::rename(&old, &new) {
            Ok(()) => moved.push((old, new)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives a file the name back that it had.
fn back(new: &Path, old: &Path) {
    let _the_first_error_is_returned = fs::rename(new, old);
}
