//! A SQLite file, which is locked and whose disk is full for a while.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aether::sqlite::SqliteStore;
use aether::sqlite::rusqlite::Connection;
use aether::store::Store;

use super::disk::Disk;
use super::faults::Fault;
use super::home::{Home, Messages};
use super::plan::Plan;

/// The file, on its disk.
pub(super) struct File {
    disk: Disk,
    reader: Connection,
    lock: Option<Connection>,
}

impl File {
    pub(super) fn in_folder(folder: &Path, plan: &Plan) -> Self {
        let disk = Disk::in_folder(folder, plan.faulty, plan.long);
        drop(SqliteStore::open(disk.database()).unwrap());
        let reader = Connection::open(disk.database()).unwrap();
        reader.busy_timeout(Duration::from_millis(20)).unwrap();
        Self { disk, reader, lock: None }
    }

    /// Locks the file, unless somebody writes.
    fn lock(&mut self) -> bool {
        let conn = Connection::open(self.disk.database()).unwrap();
        conn.busy_timeout(Duration::from_millis(100)).unwrap();
        let locked = conn.execute_batch("BEGIN EXCLUSIVE").is_ok();
        self.lock = locked.then_some(conn);
        locked
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one SQLite file, its disk full by {}", self.disk)
    }
}

impl Home for File {
    fn address(&self) -> String {
        self.disk.database().display().to_string()
    }

    fn max_pages(&self) -> Option<u32> {
        self.disk.max_pages()
    }

    fn cards(&self) -> &'static [(Fault, usize)] {
        use Fault::{Full, Kill, Leap, Lock, Pause, Quiet, Shutdown};
        &[(Kill, 4), (Pause, 4), (Leap, 2), (Shutdown, 2), (Lock, 1), (Full, 1), (Quiet, 1)]
    }

    fn open_runs(&mut self) -> Option<u32> {
        // A file that is locked by nobody but this reader's look is open again with the next tick.
        let open = "SELECT count(*) FROM aether_runs WHERE status IN ('pending', 'running', 'waiting')";
        self.reader.query_row(open, [], |row| row.get(0)).ok()
    }

    fn begin(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Lock => self.lock(),
            Fault::Full => self.disk.fill(),
            other => panic!("{other:?} does not happen to a file"),
        }
    }

    fn end(&mut self, fault: Fault) -> bool {
        match (fault, self.lock.take()) {
            (Fault::Lock, Some(lock)) => lock.execute_batch("COMMIT").unwrap(),
            (_, lock) => {
                self.lock = lock;
                // The room is given back by a write, which has to wait for its turn like any other.
                return self.disk.empty();
            }
        }
        true
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.disk.database()).unwrap())
    }

    fn messages(&self) -> Messages {
        let conn = Connection::open(self.disk.database()).unwrap();
        let sql = "SELECT runs.id, inbox.id, topic, consumed FROM aether_inbox AS inbox JOIN aether_runs AS runs ON runs.no = run_no";
        let mut rows = conn.prepare(sql).unwrap();
        let rows = rows.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?))));
        rows.unwrap().map(Result::unwrap).collect()
    }

    fn keep(&self, folder: &Path) {
        let conn = Connection::open(self.disk.database()).unwrap();
        conn.execute("VACUUM INTO ?1", [folder.join("agent.db").to_str().unwrap()]).unwrap();
    }

    fn damage(&self) -> Option<String> {
        let conn = Connection::open(self.disk.database()).unwrap();
        let sound: String = conn.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
        (sound != "ok").then_some(sound)
    }
}
