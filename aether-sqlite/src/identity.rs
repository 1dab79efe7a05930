//! Whether the open file is still the one that its path names.
//!
//! Promise: after the file or its write-ahead log was deleted or replaced, [`FileWatch::check`] says so, and says how to
//! put it right. Two calls of `stat`, about two microseconds. Where the system gives files no number, and for a path
//! that is no file, nothing is ever said.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aether_core::store::StoreError;

/// Device and number of a file.
pub(crate) type Identity = (u64, u64);

/// Which file has this name; `None` where none has it, or the system gives files no number.
pub(crate) fn identity_of(path: &Path) -> Option<Identity> {
    identity(path).ok().flatten()
}

/// The files that a store has open.
#[derive(Clone, Debug)]
pub(crate) struct FileWatch {
    store: Arc<str>,
    watched: Arc<[(PathBuf, Identity)]>,
}

impl FileWatch {
    /// Watches the database at `path`, which is open in write-ahead mode, and its log. As long as a connection is open,
    /// SQLite itself removes neither.
    pub(crate) fn new(path: &Path, store: &Arc<str>) -> Self {
        // Absolute: the program may change its directory. The log lies beside the file that a link leads to.
        let database = std::path::absolute(path).ok();
        let log = std::fs::canonicalize(path).ok().map(|path| {
            let mut log = path.into_os_string();
            log.push("-wal");
            PathBuf::from(log)
        });
        Self::of(database.into_iter().chain(log), store)
    }

    /// Watches the database at `path` alone: others may make a log for it, and remove it again.
    pub(crate) fn without_log(path: &Path, store: &Arc<str>) -> Self {
        Self::of(std::path::absolute(path).ok().into_iter(), store)
    }

    fn of(files: impl Iterator<Item = PathBuf>, store: &Arc<str>) -> Self {
        let watched = files.filter_map(|file| identity_of(&file).map(|id| (file, id)));
        Self { store: store.clone(), watched: watched.collect() }
    }

    /// Whether both files are where they were.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.watched.iter().try_for_each(|(file, known)| {
            let what = match identity(file) {
                Ok(Some(found)) if found != *known => "replaced by another file",
                Err(error) if error.kind() == ErrorKind::NotFound => "deleted or moved",
                // What cannot be looked at for another reason is for SQLite to judge.
                _ => return Ok(()),
            };
            let file = file.display();
            let reason = format!(
                "{file} was {what} while it was open, so nothing more is written: stop every process that uses it, put \
                 the file back together with its `-wal` file, or restore a backup of both, and start again"
            );
            Err(StoreError::Lost { store: self.store.to_string(), reason })
        })
    }
}

#[cfg(unix)]
fn identity(file: &Path) -> std::io::Result<Option<Identity>> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(file).map(|data| Some((data.dev(), data.ino())))
}

/// An open file cannot be deleted here.
#[cfg(not(unix))]
fn identity(_file: &Path) -> std::io::Result<Option<Identity>> {
    Ok(None)
}
