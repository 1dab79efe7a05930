//! Whether the open file is still the one that its path names.
//!
//! Promise: after the file, its write-ahead log or the index of that was deleted or replaced, [`FileWatch::check`] says so, and
//! says how to put it right, and no connection copies its log as it closes. Three calls of `stat`, about three microseconds.
//! Where the system gives files no number, and for a path that is no file, nothing is ever said.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use aether_core::store::StoreError;

/// Device and number of a file.
pub(crate) type Identity = (u64, u64);

/// Which file has this name; `None` where none has it, or the system gives files no number.
pub(crate) fn identity_of(path: &Path) -> Option<Identity> {
    identity(path).ok().flatten()
}

/// Which file this is, as [`identity_of`] says it.
pub(crate) fn identity_of_open(file: &File) -> Option<Identity> {
    file.metadata().ok().and_then(number)
}

/// What stands behind the name of a database in that of the index of its log.
const INDEX: &str = "-shm";

/// The files that a store has open.
#[derive(Clone, Debug)]
pub(crate) struct FileWatch {
    store: Arc<str>,
    watched: Arc<[(PathBuf, Identity)]>,
}

impl FileWatch {
    /// Watches the database at `path`, which is open in write-ahead mode and was read, its log and the index of that. As long
    /// as a connection is open, SQLite itself removes none of them. The locks of writers are in the index: with two of them
    /// two processes would write at once.
    pub(crate) fn new(path: &Path, store: &Arc<str>) -> Self {
        // Absolute: the program may change its directory. The log lies beside the file that a link leads to.
        let database = std::path::absolute(path).ok();
        let file = std::fs::canonicalize(path).ok().map(PathBuf::into_os_string);
        let logs = file.into_iter().flat_map(|file| {
            ["-wal", INDEX].map(|ending| {
                let mut log = file.clone();
                log.push(ending);
                PathBuf::from(log)
            })
        });
        Self::of(database.into_iter().chain(logs), store)
    }

    /// Watches the database at `path` alone: others may make logs for it, and remove them again.
    pub(crate) fn without_log(path: &Path, store: &Arc<str>) -> Self {
        Self::of(std::path::absolute(path).ok().into_iter(), store)
    }

    fn of(files: impl Iterator<Item = PathBuf>, store: &Arc<str>) -> Self {
        let watched = files.filter_map(|file| identity_of(&file).map(|id| (file, id)));
        Self { store: store.clone(), watched: watched.collect() }
    }

    /// Whether the files are where they were.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.watched.iter().try_for_each(|(file, known)| {
            let what = match identity(file) {
                Ok(Some(found)) if found != *known => "replaced by another file",
                Err(error) if error.kind() == ErrorKind::NotFound => "deleted or moved",
                // What cannot be looked at for another reason is for SQLite to judge.
                _ => return Ok(()),
            };
            let right = match file.as_os_str().as_encoded_bytes().ends_with(INDEX.as_bytes()) {
                // It holds nothing that is not in the log.
                true => "stop every process that uses the database, and start again: SQLite makes this file anew",
                false => {
                    "stop every process that uses it, put the file back together with its `-wal` file, or restore a backup \
                     of both, and start again"
                }
            };
            let file = file.display();
            let reason = format!("{file} was {what} while it was open, so nothing more is written: {right}");
            Err(StoreError::Lost { store: self.store.to_string(), reason })
        })
    }

    /// To be called before a connection is closed. Of files that are not the open ones any more, the last connection would
    /// copy its log over what others have written since, and delete theirs.
    pub(crate) fn before_close(&self, conn: &Connection) {
        if self.check().is_ok() {
            return;
        }
        if let Err(error) = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            tracing::error!(store = %self.store, %error, "a connection to a file that is lost may write as it closes");
        }
    }
}

fn identity(file: &Path) -> std::io::Result<Option<Identity>> {
    std::fs::metadata(file).map(number)
}

#[cfg(unix)]
fn number(data: Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    Some((data.dev(), data.ino()))
}

/// An open file cannot be deleted here.
#[cfg(not(unix))]
fn number(_data: Metadata) -> Option<Identity> {
    None
}
