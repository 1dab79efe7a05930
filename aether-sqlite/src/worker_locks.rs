//! Locks of workers: which workers' processes still run.
//!
//! Promise: a worker is said to be dead only when its process has let go of the lock on its file, which the operating
//! system does when a process ends in whatever way. All processes that have opened one database look at the same files,
//! whatever links they came by, and a file that is held is removed by nobody else. Where no such file can be made or read, no
//! worker is said to be dead, and leases alone decide.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aether_core::id::WorkerId;

use crate::identity::{identity_of, identity_of_open};
use crate::place;

/// How often a lock is asked for, and the pause behind each time.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The lock files of one store's workers, in a folder beside the database.
#[derive(Debug)]
pub(crate) struct WorkerLocks {
    folder: PathBuf,
    held: Mutex<HashMap<WorkerId, File>>,
}

impl WorkerLocks {
    /// The locks lie beside the file that `database` leads to, as its log does: a lock beside a link would be seen only by
    /// who comes by the same one.
    pub(crate) fn beside(database: &Path) -> Self {
        let file = place::of(database).unwrap_or_else(|_| database.to_owned());
        Self { folder: place::beside(&file, "-workers"), held: Mutex::default() }
    }

    /// Holds the lock of `worker` until it is released, or for as long as this process lives. Returns `false` where a
    /// live process holds it.
    pub(crate) fn acquire(&self, worker: &WorkerId) -> io::Result<bool> {
        std::fs::create_dir_all(&self.folder)?;
        let name = self.file(worker);
        for _ in 0..TRIES {
            let file = File::create(&name)?;
            match file.try_lock() {
                // Until it was locked another process may have taken it for a dead worker's and removed it: a lock on a file
                // without a name is seen by no process.
                Ok(()) if identity_of_open(&file) == identity_of(&name) => {
                    self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(worker.clone(), file);
                    return Ok(true);
                }
                Ok(()) => {}
                // By a live process, or for a moment by one that looks whether it is.
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(false)
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
            let _a_file_left_behind_does_no_harm = std::fs::remove_file(self.file(worker));
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(worker);
    }

    /// Whether `worker` announced itself and its process is gone.
    pub(crate) fn is_dead(&self, worker: &WorkerId) -> bool {
        // The lock is released at once: kept, it would make the dead worker look alive to others.
        self.left(worker).is_some()
    }

    /// The file of a worker whose process is gone, locked.
    fn left(&self, worker: &WorkerId) -> Option<File> {
        // Those of this process first: what a second handle on a file sees of the first one's lock is for the system to
        // say, and a live worker taken for dead would lose its runs.
        if self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(worker) {
            return None;
        }
        let name = self.file(worker);
        let file = File::options().read(true).write(true).open(&name).ok()?;
        // Until it was locked another process may have removed it, and a live worker may have made and locked one of this name.
        (file.try_lock().is_ok() && identity_of_open(&file) == identity_of(&name)).then_some(file)
    }

    /// Removes the file of a dead worker whose runs were released. One that a worker of this name has locked meanwhile stays.
    pub(crate) fn remove(&self, worker: &WorkerId) {
        if let Some(_locked) = self.left(worker) {
            let _a_file_left_behind_does_no_harm = std::fs::remove_file(self.file(worker));
        }
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
            if !owners.contains(&worker) && !known.contains(&worker) {
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

    #[test]
    fn a_lock_is_on_the_file_that_others_look_at() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db");
        let worker = WorkerId::from("w".to_owned());
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let taken_for_dead = std::thread::scope(|scope| {
            // What sweeps beside the beginning of a worker. Three, as one may open the file that the second removes, and
            // look at it behind the beginning of the worker.
            for _ in 0..3 {
                scope.spawn(|| {
                    let locks = WorkerLocks::beside(&database);
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        locks.sweep(&[], &[]);
                        locks.remove(&worker);
                    }
                });
            }
            let (mine, theirs) = (WorkerLocks::beside(&database), WorkerLocks::beside(&database));
            // Not judged in here: the scope would wait for ever for those that sweep.
            let mut taken_for_dead = Vec::new();
            for round in 0..2_000 {
                if mine.acquire(&worker).is_ok_and(|acquired| acquired) {
                    if theirs.is_dead(&worker) || !theirs.is_alive(&worker) {
                        taken_for_dead.push(round);
                    }
                    mine.release(&worker);
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            taken_for_dead
        });
        assert!(taken_for_dead.is_empty(), "in rounds {taken_for_dead:?}");
    }
}
