//! Locks of workers: which workers' processes still run.
//!
//! Promise: a worker is said to be dead only when its process has let go of the lock on its file, which the operating
//! system does when a process ends in whatever way. Where no such file can be made or read, no worker is said to be
//! dead, and leases alone decide.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aether_core::id::WorkerId;

/// The lock files of one store's workers, in a folder beside the database.
#[derive(Debug)]
pub(crate) struct WorkerLocks {
    folder: PathBuf,
    held: Mutex<HashMap<WorkerId, File>>,
}

impl WorkerLocks {
    pub(crate) fn beside(database: &Path) -> Self {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-workers");
        Self { folder: folder.into(), held: Mutex::default() }
    }

    /// Holds the lock of `worker` until it is released, or for as long as this process lives. Returns `false` where a
    /// live process holds it.
    pub(crate) fn acquire(&self, worker: &WorkerId) -> io::Result<bool> {
        std::fs::create_dir_all(&self.folder)?;
        let file = File::create(self.file(worker))?;
        // Until this line another process may take the new file for a dead worker's and remove it. Then the lock is on
        // a file that no process finds, and the lease alone decides: slower after a crash, never wrong.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(worker.clone(), file);
        Ok(true)
    }

    /// Whether the process of `worker` is known to be there.
    pub(crate) fn is_alive(&self, worker: &WorkerId) -> bool {
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(worker) {
            return true;
        }
        let Ok(file) = File::options().read(true).write(true).open(self.file(worker)) else { return false };
        matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Releases the lock of a worker that is over, and removes its file.
    pub(crate) fn release(&self, worker: &WorkerId) {
        // Removed before the lock is: nobody may take it for that of a worker that died and left runs.
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(worker) {
            self.remove(worker);
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(worker);
    }

    /// Whether `worker` announced itself and its process is gone.
    pub(crate) fn is_dead(&self, worker: &WorkerId) -> bool {
        // Those of this process first: what a second handle on a file sees of the first one's lock is for the system to
        // say, and a live worker taken for dead would lose its runs.
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(worker) {
            return false;
        }
        let Ok(file) = File::options().read(true).write(true).open(self.file(worker)) else { return false };
        match file.try_lock() {
            // The lock is released with `file`, at once: kept, it would make the dead worker look alive to others.
            Ok(()) => true,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        }
    }

    /// Removes the file of a dead worker whose runs were released.
    pub(crate) fn remove(&self, worker: &WorkerId) {
        let _a_file_left_behind_does_no_harm = std::fs::remove_file(self.file(worker));
    }

    /// Releases every lock of this store. The files stay: an unlocked one says that its worker is dead, so runs it
    /// still holds can be claimed at once; without the file they would wait for the end of their leases.
    pub(crate) fn release_all(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns those of `known` that hold no run and whose processes are gone; their files stay until they are retired.
    /// Removes the files of dead workers that are not known and hold no run.
    pub(crate) fn sweep(&self, known: &[WorkerId], owners: &[WorkerId]) -> Vec<WorkerId> {
        let is_over = |worker: &&WorkerId| !owners.contains(worker) && self.is_dead(worker);
        let gone = known.iter().filter(is_over).cloned().collect();
        let Ok(files) = std::fs::read_dir(&self.folder) else { return gone };
        for file in files.flatten() {
            let worker = WorkerId::from(file.file_name().to_string_lossy().into_owned());
            if !owners.contains(&worker) && !known.contains(&worker) && self.is_dead(&worker) {
                self.remove(&worker);
            }
        }
        gone
    }

    fn file(&self, worker: &WorkerId) -> PathBuf {
        let safe: String =
            worker.as_str().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join(safe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_lives_while_its_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db");
        let (mine, theirs) = (WorkerLocks::beside(&database), WorkerLocks::beside(&database));
        let (alive, unknown) = (WorkerId::from("w1".to_owned()), WorkerId::from("w2".to_owned()));
        theirs.acquire(&alive).unwrap();
        assert!(!mine.is_dead(&alive));
        assert!(!mine.is_dead(&unknown), "one that never announced itself is judged by its lease");
        // What a kill does: the process is gone, the file is not.
        theirs.held.lock().unwrap().clear();
        assert!(mine.is_dead(&alive));
        mine.remove(&alive);
        assert!(!mine.is_dead(&alive));
    }
}
