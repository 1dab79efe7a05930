//! The embedded store under the scheduler: its writer and readers are tasks, and every call of it is a place to stop.
//!
//! Promise: passes every call on, and tells the judge what was delivered.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::{LargeValue, StoredFrame};
use aether_core::payload::Payload;
use aether_core::store::ledger::{LedgerEntry, Reservation};
use aether_core::store::{
    Append, AppendError, BirthNotice, ClaimRequest, Created, Cursor, Decision, DefinitionRecord,
    DueSchedules, Durability, EndedRuns, ForeignRuns, KnownWorker, Lease, ListedWait, LostRun, Message,
    NewRun, OpenWait, Purged, Recode, RunFilter, RunRecord, ScheduleRecord, Sent, Snapshot, Store,
    StoreError, StoredEffect, StreamItem, StreamWrite, WaitFilter, WorkerRecord,
};
use aether_sqlite::{SqliteOptions, SqliteStore};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::judge;
use crate::sim;

/// A database file of one schedule; removed when this is dropped.
#[derive(Debug)]
pub struct DatabaseFile(PathBuf);

impl DatabaseFile {
    /// A new file, in memory where the system has a folder for that.
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(folder.join(format!("aether-dst-{:010}-{number:010}.db", std::process::id())))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for DatabaseFile {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        let beside = |end: &str| {
            let mut path = self.0.as_os_str().to_owned();
            path.push(end);
            PathBuf::from(path)
        };
        for end in ["", "-wal", "-shm"] {
            let _may_not_be_there = std::fs::remove_file(beside(end));
        }
        let _may_not_be_there = std::fs::remove_dir_all(beside("-workers"));
    }
}

/// The embedded store of one engine.
#[derive(Debug)]
pub struct JudgedStore {
    engine: u32,
    store: SqliteStore,
}

impl JudgedStore {
    /// Opens the file; its threads become tasks of the caller's group. No wait of it is one of the system.
    ///
    /// # Errors
    /// As the store's own.
    pub fn open(engine: u32, path: &Path) -> Result<Arc<Self>, StoreError> {
        let none = Duration::ZERO;
        let options = SqliteOptions {
            busy_timeout: none,
            lock_patience: none,
            linger: none,
            readers: 1,
            ..SqliteOptions::default()
        };
        Ok(Arc::new(Self { engine, store: SqliteStore::open_with(path, options)? }))
    }
}

macro_rules! passed_on {
    ($(fn $name:ident(&self $(, $arg:ident: $kind:ty)*) -> $answer:ty;)*) => {$(
        fn $name(&self $(, $arg: $kind)*) -> BoxFuture<'_, $answer> {
            sim::point(stringify!($name));
            self.store.$name($($arg),*)
        }
    )*};
}

impl Store for JudgedStore {
    fn describe(&self) -> String {
        self.store.describe()
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        judge::registered(self.engine, worker);
        self.store.register(worker, lease, codes)
    }

    fn append(&self, append: Append) {
        sim::point("append");
        self.store.append(append);
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        sim::point("list_waits");
        self.store.list_waits(run, next, waits)
    }

    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>> {
        sim::point("send");
        let (id, note) = (run.clone(), message.clone());
        let sent = self.store.send(run, message);
        async move {
            let sent = sent.await?;
            judge::delivered(&id, &note, sent);
            Ok(sent)
        }
        .boxed()
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>> {
        sim::point("purge");
        judge::purges(self.engine, run);
        self.store.purge(run, created_at)
    }

    passed_on! {
        fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError>;
        fn retire(&self, worker: &WorkerId) -> Result<(), StoreError>;
        fn unaware_owners(&self, run: &RunId) -> Result<Vec<WorkerId>, StoreError>;
        fn create(&self, new: NewRun) -> Result<Created, StoreError>;
        fn create_early(&self, new: NewRun, notice: BirthNotice) -> Result<Created, StoreError>;
        fn create_decided(&self, new: NewRun, decision: Decision) -> Result<Created, StoreError>;
        fn create_fork(&self, new: NewRun, ledger: Vec<LedgerEntry>) -> Result<Created, StoreError>;
        fn load(&self, run: &RunId, from: Position) -> Result<Vec<StoredFrame>, StoreError>;
        fn last_frame(&self, run: &RunId) -> Result<Option<StoredFrame>, StoreError>;
        fn run(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError>;
        fn runs(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError>;
        fn count(&self, filter: RunFilter) -> Result<u64, StoreError>;
        fn claim(&self, request: ClaimRequest) -> Result<Vec<Lease>, StoreError>;
        fn codes_elsewhere(&self, me: &WorkerId) -> Result<Vec<CodeId>, StoreError>;
        fn known_workers(&self) -> Result<Vec<KnownWorker>, StoreError>;
        fn recode(&self, runs: Vec<Recode>) -> Result<usize, StoreError>;
        fn foreign(&self, query: ForeignRuns) -> Result<Vec<RunRecord>, StoreError>;
        fn put_definition(&self, definition: DefinitionRecord) -> Result<(), StoreError>;
        fn definitions(&self) -> Result<Vec<DefinitionRecord>, StoreError>;
        fn renew(&self, worker: &WorkerId, lease: Duration, noticed: Vec<LostRun>) -> Result<Vec<LostRun>, StoreError>;
        fn release(&self, worker: &WorkerId, run: &RunId, epoch: Epoch, wake_at: Timestamp) -> Result<(), StoreError>;
        fn hasten(&self, now: Timestamp, beyond: Timestamp) -> Result<usize, StoreError>;
        fn next_wake(&self) -> Result<Option<Timestamp>, StoreError>;
        fn entry(&self, run: &RunId, key: &IdempotencyKey) -> Result<Option<LedgerEntry>, StoreError>;
        fn reserve(&self, wanted: Reservation, replaces: Option<Reservation>) -> Result<Reservation, StoreError>;
        fn reservation(&self, business_key: &str) -> Result<Option<Reservation>, StoreError>;
        fn entries(&self, run: &RunId) -> Result<Vec<LedgerEntry>, StoreError>;
        fn inbox(&self, run: &RunId, after: u64) -> Result<Vec<Message>, StoreError>;
        fn unread_waiting(&self, after: Option<Cursor>, limit: usize) -> Result<Vec<(RunRecord, u64)>, StoreError>;
        fn waits(&self, filter: WaitFilter) -> Result<Vec<ListedWait>, StoreError>;
        fn unlisted_waits(&self, limit: usize) -> Result<Vec<RunId>, StoreError>;
        fn held(&self, worker: &WorkerId) -> Result<Vec<(RunId, Epoch)>, StoreError>;
        fn unread_held(&self, worker: &WorkerId) -> Result<Vec<(RunId, u64)>, StoreError>;
        fn save_progress(&self, run: &RunId, epoch: Epoch, command: &CommandId, progress: Payload) -> Result<(), StoreError>;
        fn progress(&self, run: &RunId, command: &CommandId) -> Result<Option<Payload>, StoreError>;
        fn write_streams(&self, writes: Vec<StreamWrite>) -> Result<Vec<Option<Vec<StreamItem>>>, StoreError>;
        fn open_streams(&self, run: &RunId) -> Result<Vec<CommandId>, StoreError>;
        fn stream(&self, run: &RunId, stream: &str, after: u64, limit: usize) -> Result<Vec<StreamItem>, StoreError>;
        fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> Result<(), StoreError>;
        fn blob(&self, run: &RunId, hash: &str) -> Result<Option<Vec<u8>>, StoreError>;
        fn put_effect(&self, effect: StoredEffect, epoch: Epoch, values: Vec<LargeValue>) -> Result<(), AppendError>;
        fn effects(&self, run: &RunId) -> Result<Vec<StoredEffect>, StoreError>;
        fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> Result<(), StoreError>;
        fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError>;
        fn ended(&self, query: EndedRuns) -> Result<Vec<(u64, RunRecord)>, StoreError>;
        fn put_schedule(&self, schedule: ScheduleRecord, replaces: u64) -> Result<bool, StoreError>;
        fn schedules(&self, after: Option<&str>, limit: usize) -> Result<Vec<ScheduleRecord>, StoreError>;
        fn schedule(&self, name: &str) -> Result<Option<ScheduleRecord>, StoreError>;
        fn due_schedules(&self, query: DueSchedules) -> Result<Vec<ScheduleRecord>, StoreError>;
        fn remove_schedule(&self, name: &str) -> Result<bool, StoreError>;
        fn delete_snapshots(&self) -> Result<(), StoreError>;
        fn close(&self) -> Result<(), StoreError>;
    }
}
