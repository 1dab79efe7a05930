//! The store itself: every operation of the contract, queued for the writer or asked of a reader.
//!
//! Promise: nothing here blocks an async worker; dropping the store flushes what is queued.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::oneshot;

use aether_core::engine::PrepareError;
use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::LargeValue;
use aether_core::journal::StoredFrame;
use aether_core::measures::{BatchCounter, Batches};
use aether_core::payload::Payload;
use aether_core::queue::{LimitPattern, Serves};
use aether_core::store::StoredEffect;
use aether_core::store::ledger::{LedgerEntry, Reservation};
use aether_core::store::{
    Append, AppendError, ClaimRequest, Created, Cursor, DamagedRun, Decision, DefinitionRecord, DueSchedules,
    DueStarts, Durability, EndedRuns, ForeignRuns, KeyedStart, KnownWorker, Lease, Limit, ListedWait,
    LostRun, Message, NewRun, OpenWait, Purged, QueuePosition, Recode, RunFilter, RunRecord, RunRow,
    ScheduleRecord, Sent, Serving, Snapshot, Store, StoreError, Unread, WaitFilter, WorkerRecord,
};
use aether_core::store::{BirthNotice, StreamItem, StreamWrite};

use crate::batch::Batch;
use crate::error::{OpError, gone, translate};
use crate::identity::FileWatch;
use crate::open::Look;
use crate::options::SqliteOptions;
use crate::prepare::Prepare;
use crate::reader::{Opened, Readers};
use crate::request::{Creation, Op, WriteRequest};
use crate::sched::{JoinHandle, Sender, spawn, unbounded};
use crate::schema::SUPPORTED;
use crate::spent::{TakeBack, ways_back};
use crate::worker_locks::WorkerLocks;
use crate::writer::WriterConfig;
use crate::{
    codes, damage, keyed_starts, list, open, place, prepare, queues, reader, reservations, schedules,
    streams, waits, writer,
};

/// A store in one SQLite file. Dropping it flushes what is queued.
#[derive(Debug)]
pub struct SqliteStore {
    name: Arc<str>,
    /// Nothing is written: see [`SqliteStore::open_read_only`].
    is_read_only: bool,
    path: PathBuf,
    options: SqliteOptions,
    ops: Sender<Op>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Readers,
    locks: Arc<WorkerLocks>,
    batches: Arc<BatchCounter>,
    back: TakeBack,
}

impl SqliteStore {
    /// Opens the file at `path`, creating it if it is missing. A relative path begins in the directory that is the present one
    /// now, wherever the program goes later.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the file cannot be opened or has tables of another program in `aether_`, and
    /// [`StoreError::NewerSchema`], [`StoreError::ReadOnly`], [`StoreError::Full`], [`StoreError::Locked`] or
    /// [`StoreError::Corrupt`] as they say.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// Opens the file at `path` with other than the default options.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("agent.db");
    /// use aether_sqlite::{SqliteOptions, SqliteStore};
    /// let store = SqliteStore::open_with(&path, SqliteOptions { readers: 1, ..SqliteOptions::default() })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let (path, options) = (path.as_ref(), options.within_limits());
        let name: Arc<str> = format!("sqlite {}", path.display()).into();
        // Connections are opened later, too.
        let path = place::from_here(path);
        let conn = open::open(&path, &name, &options)?;
        let file = place::file_of(&conn, &path);
        // The store's own tables have no foreign keys; one of another table must not hold a purge up.
        conn.pragma_update(None, "foreign_keys", false).map_err(|error| translate(&error, &name))?;
        let no_thread = |error: std::io::Error| StoreError::Open {
            store: name.to_string(),
            reason: format!("no thread could be started: {error}"),
        };
        let watch = FileWatch::new(&file, &name);
        let readers = Readers::start(&path, &watch, &name, &options, Opened::ToWork).map_err(no_thread)?;
        let copying = readers.thread().map_err(no_thread)?;
        let (queue, ops) = unbounded();
        let (ready, begun) = unbounded();
        let batches = Arc::<BatchCounter>::default();
        let (give_back, back) = ways_back();
        let config = WriterConfig {
            path: path.clone(),
            store: name.clone(),
            options: options.clone(),
            watch,
            readers: readers.end(),
            batches: Arc::clone(&batches),
            back: give_back,
        };
        let serving = move || writer::serve(conn, &config, &ops, copying, &ready);
        let writer = spawn("aether-sqlite-writer", serving).map_err(no_thread)?;
        begun.recv().unwrap_or_else(|_| Err(gone(&name)))?;
        let locks = Arc::new(WorkerLocks::beside(&file));
        let writer = Mutex::new(Some(writer));
        let is_read_only = false;
        Ok(Self { name, is_read_only, path, options, ops: queue, writer, readers, locks, batches, back })
    }

    /// Opens the file at `path` to look at it: neither it nor anything beside it is changed by what is asked of this store,
    /// also where the process that worked on it was killed. It may be in use, or be a backup on a medium that cannot be
    /// written.
    ///
    /// An engine on it must be a [client](aether_core::engine::EngineBuilder::client). It is not registered, so others do
    /// not see it; whatever would change something fails with [`StoreError::ReadOnly`].
    ///
    /// # Errors
    /// [`StoreError::Open`] when there is no such file, or its tables are missing or older than those of this build; others
    /// as [`SqliteStore::open`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("agent.db");
    /// # drop(aether_sqlite::SqliteStore::open(&path)?);
    /// let before = std::fs::read(&path)?;
    /// let store = aether_sqlite::SqliteStore::open_read_only(&path)?;
    /// drop(store);
    /// assert_eq!(std::fs::read(&path)?, before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let name: Arc<str> = format!("sqlite {}", path.display()).into();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let path = path.as_path();
        let refused = |reason: String| StoreError::Open { store: name.to_string(), reason };
        // Of two connections that are closed at once, neither is the last, and what SQLite made beside the file would stay.
        let options = SqliteOptions { readers: 1, ..SqliteOptions::default() };
        let look = Look::at(path);
        let (_, version) = open::to_look(path, &name, options.busy_timeout)?;
        if version != SUPPORTED {
            return Err(refused(format!(
                "its tables have version {version}, and this build reads version {SUPPORTED}: open it for writing first"
            )));
        }
        let watch = FileWatch::without_log(path, &name);
        let readers = Readers::start(path, &watch, &name, &options, Opened::ToLook(look))
            .map_err(|error| refused(format!("no thread could be started: {error}")))?;
        // Nobody takes anything from it.
        let (ops, _) = unbounded();
        let locks = Arc::new(WorkerLocks::beside(path));
        let (path, writer) = (path.to_owned(), Mutex::default());
        let (batches, (_, back)) = (Arc::default(), ways_back());
        Ok(Self { name, is_read_only: true, path, options, ops, writer, readers, locks, batches, back })
    }

    fn read_only(&self) -> StoreError {
        let reason = "it was opened to look at it".to_owned();
        StoreError::ReadOnly { store: self.name.to_string(), reason }
    }

    /// Runs the user's migrations; see [`EngineSqlite::prepare`](crate::EngineSqlite::prepare).
    pub(crate) async fn prepare(&self, prepare: Prepare) -> Result<(), PrepareError> {
        prepare::run(&self.path, &self.name, &self.options, prepare).await
    }

    /// Runs `ask` in the writer's transaction and answers when that is durable. Queued before this returns.
    fn write<T: Send + 'static>(
        &self,
        ask: impl FnMut(&mut Batch<'_>) -> Result<T, OpError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        self.queue(WriteRequest::with_reply(ask, false))
    }

    fn queue<T: Send + 'static>(
        &self,
        (op, answer): (Op, oneshot::Receiver<Result<T, StoreError>>),
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        if self.is_read_only {
            return Box::pin(std::future::ready(Err(self.read_only())));
        }
        // Sent here and not in the future: calls take effect in the order in which they are made, polled or not. A
        // queue that is closed returns the operation; dropping it is what answers `gone`.
        drop(self.ops.send(op));
        let name = Arc::clone(&self.name);
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(gone(&name))) })
    }

    /// Workers that hold runs and whose processes are gone.
    async fn dead_workers(&self) -> Result<Vec<WorkerId>, StoreError> {
        let locks = Arc::clone(&self.locks);
        self.readers
            .ask(move |conn| {
                Ok(reader::owners(conn)?.into_iter().filter(|worker| locks.is_dead(worker)).collect())
            })
            .await
    }

    /// Takes no more work. The writer ends last, and closes the file: what it answers says that all is done.
    fn end(&self) -> oneshot::Receiver<Result<(), StoreError>> {
        self.readers.stop();
        let (closer, closed) = oneshot::channel();
        drop(self.ops.send(Op::Close(closer)));
        closed
    }

    /// Waits, on a thread of its own, for the readers of a store that has no writer which does.
    async fn readers_ended(&self) {
        let (reply, ended) = oneshot::channel();
        let readers = self.readers.end();
        let waits = spawn("aether-sqlite-close", move || {
            readers.wait();
            let _asker_gone = reply.send(());
        });
        if waits.is_ok() {
            let _ended = ended.await;
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let _nobody_asks = self.end();
        match self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(writer) => drop(writer.join()),
            None => self.readers.end().wait(),
        }
        self.locks.release_all();
    }
}

impl Store for SqliteStore {
    fn describe(&self) -> String {
        self.name.to_string()
    }

    fn durability(&self) -> Durability {
        Durability::PowerLoss
    }

    fn batches(&self) -> Option<Batches> {
        Some(self.batches.read())
    }

    fn transactions(&self) -> Option<&'static str> {
        Some(crate::sql::NAME)
    }

    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        if self.is_read_only {
            return Box::pin(std::future::ready(Ok(true)));
        }
        let (locks, id, name) = (Arc::clone(&self.locks), worker.clone(), Arc::clone(&self.name));
        let locked = self.readers.ask(move |conn| {
            let gone = locks.sweep(&reader::known_workers(conn)?, &reader::owners(conn)?);
            let is_free = locks.acquire(&id).unwrap_or_else(|error| {
                tracing::debug!(store = %name, %error, "no worker lock can be taken; leases alone decide");
                true
            });
            Ok((is_free, gone))
        });
        let worker = worker.clone();
        Box::pin(async move {
            let (is_free, gone) = locked.await?;
            if !is_free {
                return Ok(false);
            }
            let (id, retired) = (worker.clone(), gone.clone());
            let registered = self
                .write(move |batch| {
                    gone.iter().try_for_each(|worker| batch.retire(worker))?;
                    batch.register(&id, lease, &codes)
                })
                .await;
            if !matches!(registered, Ok(true)) {
                self.locks.release(&worker);
            }
            // Only after the commit: without its file a dead worker could not be told from one that works without locks,
            // and would count as one that can run its codes.
            if registered.is_ok() {
                retired.iter().for_each(|worker| self.locks.remove(worker));
            }
            registered
        })
    }

    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Result<Vec<ListedWait>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| waits::waits(conn, &filter)))
    }

    fn unlisted_waits(&self, limit: usize) -> BoxFuture<'_, Result<Vec<RunId>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| waits::unlisted(conn, limit)))
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        let run = run.clone();
        self.write(move |batch| batch.list_waits(&run, next, &waits))
    }

    fn held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, Epoch)>, StoreError>> {
        let worker = worker.clone();
        Box::pin(self.readers.ask(move |conn| reader::held(conn, &worker)))
    }

    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, u64)>, StoreError>> {
        let worker = worker.clone();
        Box::pin(self.readers.ask(move |conn| reader::unread_held(conn, &worker)))
    }

    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<CodeId>, StoreError>> {
        let (locks, me) = (Arc::clone(&self.locks), me.clone());
        Box::pin(self.readers.ask(move |conn| {
            let others = codes::codes_of_others(conn, &me)?;
            // Grouped by worker: one look at each lock.
            let groups = others.chunk_by(|(one, _), (other, _)| one == other);
            let living =
                groups.filter(|group| group.first().is_some_and(|(worker, _)| !locks.is_dead(worker)));
            let codes: BTreeSet<_> = living.flatten().map(|(_, code)| code.clone()).collect();
            Ok(codes.into_iter().collect())
        }))
    }

    fn serve(&self, worker: &WorkerId, serves: Serves) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.is_read_only {
            return Box::pin(std::future::ready(Ok(())));
        }
        let worker = worker.clone();
        self.write(move |batch| batch.serve(&worker, &serves))
    }

    fn serving_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<Serving>, StoreError>> {
        let (locks, me) = (Arc::clone(&self.locks), me.clone());
        Box::pin(self.readers.ask(move |conn| {
            let mut others = codes::serving_of_others(conn, &me)?;
            others.retain(|(worker, _)| !locks.is_dead(worker));
            Ok(others.into_iter().map(|(_, serving)| serving).collect())
        }))
    }

    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.write(move |batch| batch.recode(&runs))
    }

    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| codes::foreign(conn, &query)))
    }

    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(move |batch| batch.put_definition(&definition))
    }

    fn definitions(&self) -> BoxFuture<'_, Result<Vec<DefinitionRecord>, StoreError>> {
        Box::pin(self.readers.ask(codes::definitions))
    }

    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerRecord>, StoreError>> {
        Box::pin(self.readers.ask(reader::workers))
    }

    fn known_workers(&self) -> BoxFuture<'_, Result<Vec<KnownWorker>, StoreError>> {
        let locks = Arc::clone(&self.locks);
        Box::pin(self.readers.ask(move |conn| {
            let mut known = codes::known_workers(conn)?;
            known.iter_mut().for_each(|worker| worker.is_dead = locks.is_dead(&worker.id));
            Ok(known)
        }))
    }

    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.is_read_only {
            return Box::pin(std::future::ready(Ok(())));
        }
        let id = worker.clone();
        let retired = self.write(move |batch| batch.retire(&id));
        let worker = worker.clone();
        Box::pin(async move {
            retired.await?;
            self.locks.release(&worker);
            Ok(())
        })
    }

    fn unaware_owners(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<WorkerId>, StoreError>> {
        let (locks, run) = (Arc::clone(&self.locks), run.clone());
        Box::pin(self.readers.ask(move |conn| {
            let mut unaware = reader::unaware_owners(conn, &run)?;
            unaware.retain(|worker| locks.is_alive(worker));
            Ok(unaware)
        }))
    }

    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_early(new, BirthNotice::new().0)
    }

    fn create_early(&self, new: NewRun, notice: BirthNotice) -> BoxFuture<'_, Result<Created, StoreError>> {
        let creates = new.owner.is_some();
        self.queue(Creation::with_reply(move |batch: &mut Batch<'_>| batch.create(&new), creates, notice))
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Result<Created, StoreError>> {
        let creates = new.owner.is_some();
        let create = move |batch: &mut Batch<'_>| batch.create_decided(&new, &decision);
        self.queue(WriteRequest::with_reply(create, creates))
    }

    fn create_fork(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        let creates = new.owner.is_some();
        let create = move |batch: &mut Batch<'_>| batch.create_fork(&new, &ledger);
        self.queue(WriteRequest::with_reply(create, creates))
    }

    fn append(&self, append: Append) {
        self.back.free_one();
        if let Err(lost) = self.ops.send(Op::Append(append))
            && let Op::Append(append) = lost.into_inner()
        {
            let error = if self.is_read_only { self.read_only() } else { gone(&self.name) };
            append.ack.failed(error.into());
        }
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::load(conn, &run, from)))
    }

    fn load_page<'s>(
        &'s self,
        run: &RunId,
        from: Position,
        events: u64,
    ) -> BoxFuture<'s, Result<Vec<StoredFrame>, StoreError>> {
        let (run, events) = (run.clone(), events.max(1));
        Box::pin(self.readers.ask(move |conn| reader::load_page(conn, &run, from, events)))
    }

    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::last_frame(conn, &run)))
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::run(conn, &run)))
    }

    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| list::runs(conn, &filter)))
    }

    fn damaged_runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<DamagedRun>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| list::damaged(conn, &filter)))
    }

    fn run_rows(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| list::run_rows(conn, &filter)))
    }

    fn damage(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        let store = self.describe();
        Box::pin(self.readers.ask_apart(move |conn| damage::damage(conn, &store)))
    }

    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.readers.ask(move |conn| list::count(conn, &filter)))
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        Box::pin(async move {
            // Looked at before the transaction, so that it waits for no file; a process that is gone stays gone.
            let dead = self.dead_workers().await?;
            let released = dead.clone();
            let leases = self
                .write(move |batch| {
                    dead.iter().try_for_each(|worker| batch.bury(worker, request.now.as_microsecond()))?;
                    batch.claim(&request)
                })
                .await?;
            // Only after the commit: were it to fail with the files gone, no process could tell any more that these
            // workers are dead, and their runs would wait for the end of their leases.
            released.iter().for_each(|worker| self.locks.remove(worker));
            Ok(leases)
        })
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Result<Vec<LostRun>, StoreError>> {
        // It was never registered.
        if self.is_read_only {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let worker = worker.clone();
        self.write(move |batch| batch.renew(&worker, lease, &noticed))
    }

    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (worker, run, id) = (worker.clone(), run.clone(), run.clone());
        let release = move |batch: &mut Batch<'_>| batch.release(&worker, &run, epoch, wake_at);
        self.queue(WriteRequest::releasing(id, release))
    }

    fn hasten(&self, now: Timestamp, beyond: Timestamp) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(async move {
            // Mostly there are none, and a look disturbs nobody who writes.
            match self.readers.ask(move |conn| reader::is_any_late(conn, beyond)).await? {
                true => self.write(move |batch| batch.hasten(now, beyond)).await,
                false => Ok(0),
            }
        })
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        Box::pin(self.readers.ask(reader::next_wake))
    }

    fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        let (run, key) = (run.clone(), key.clone());
        Box::pin(self.readers.ask(move |conn| reader::entry(conn, &run, &key)))
    }

    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Result<Reservation, StoreError>> {
        self.write(move |batch| batch.reserve(&wanted, replaces.as_ref()))
    }

    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Result<Option<Reservation>, StoreError>> {
        let key = business_key.to_owned();
        Box::pin(self.readers.ask(move |conn| reservations::reservation(conn, &key)))
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| reader::ended(conn, &query)))
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>> {
        let run = run.clone();
        self.write(move |batch| batch.purge(&run, created_at))
    }

    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::entries(conn, &run)))
    }

    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>> {
        let run = run.clone();
        self.write(move |batch| batch.send(&run, &message))
    }

    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<Vec<Message>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::inbox(conn, &run, after)))
    }

    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Unread, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::unread(conn, &run)))
    }

    fn unread_waiting(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunRecord, u64)>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| reader::unread_waiting(conn, after, limit)))
    }

    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        self.write(move |batch| batch.put_blob(&run, &hash, &bytes))
    }

    fn blob(&self, _run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        let hash = hash.to_owned();
        Box::pin(self.readers.ask(move |conn| reader::blob(conn, &hash)))
    }

    fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, command) = (run.clone(), command.clone());
        self.write(move |batch| batch.save_progress(&run, epoch, &command, &progress))
    }

    fn progress(
        &self,
        run: &RunId,
        command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        let (run, command) = (run.clone(), command.clone());
        Box::pin(self.readers.ask(move |conn| reader::progress(conn, &run, &command)))
    }

    fn write_streams(
        &self,
        writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        self.write(move |batch| writes.iter().map(|write| streams::write(batch.conn, write)).collect())
    }

    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<CommandId>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| streams::open(conn, &run)))
    }

    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StreamItem>, StoreError>> {
        let (run, stream) = (run.clone(), stream.to_owned());
        Box::pin(self.readers.ask(move |conn| streams::read(conn, &run, &stream, after, limit)))
    }

    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>> {
        // The body has returned, and may have changed the world: its outcome is kept as appends are.
        let ask = move |batch: &mut Batch<'_>| batch.put_effect(&effect, epoch, &values);
        let stored = self.queue(WriteRequest::kept(ask));
        Box::pin(async move { stored.await? })
    }

    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::effects(conn, &run)))
    }

    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>> {
        // It only saves the next look some time.
        if self.is_read_only {
            return Box::pin(std::future::ready(Ok(())));
        }
        let run = run.clone();
        self.write(move |batch| batch.save_snapshot(&run, &snapshot))
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| reader::snapshot(conn, &run)))
    }

    fn put_schedule(
        &self,
        schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.write(move |batch| batch.put_schedule(&schedule, replaces))
    }

    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let after = after.map(str::to_owned);
        Box::pin(self.readers.ask(move |conn| schedules::page(conn, after.as_deref(), limit)))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        let name = name.to_owned();
        Box::pin(self.readers.ask(move |conn| schedules::of_name(conn, &name)))
    }

    fn put_limit(&self, limit: Limit) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(move |batch| batch.put_limit(&limit))
    }

    fn remove_limit(&self, pattern: &LimitPattern, kind: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let (pattern, kind) = (pattern.clone(), kind.to_owned());
        self.write(move |batch| batch.remove_limit(&pattern, &kind))
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<Limit>, StoreError>> {
        Box::pin(self.readers.ask(queues::limits))
    }

    fn queue_position(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Option<QueuePosition>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.ask(move |conn| queues::position(conn, &run, now)))
    }

    fn keyed_start(&self, name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        let name = name.to_owned();
        Box::pin(self.readers.ask(move |conn| keyed_starts::of_name(conn, &name)))
    }

    fn put_keyed_start(&self, start: KeyedStart, replaces: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.write(move |batch| batch.put_keyed_start(&start, replaces))
    }

    fn remove_keyed_start(&self, name: &str, revision: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        self.write(move |batch| batch.remove_keyed_start(&name, revision))
    }

    fn due_starts(&self, query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| keyed_starts::due(conn, &query)))
    }

    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        Box::pin(self.readers.ask(move |conn| schedules::due(conn, &query)))
    }

    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        self.write(move |batch| batch.remove_schedule(&name))
    }

    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(|batch| batch.delete_snapshots())
    }

    /// Commits what is queued, closes the file and ends the threads. Later calls fail with
    /// [`StoreError::Closed`]; closing again does nothing. What cannot be written yet is tried for five seconds
    /// more (after [`SqliteOptions::lock_patience`], if another process holds the file). What is still being read five
    /// seconds later is interrupted, and fails like a later call.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let closed = self.end().await.unwrap_or(Ok(()));
            if self.is_read_only {
                self.readers_ended().await;
            }
            // Last: while the writer may still commit, its runs must not look abandoned to other processes.
            self.locks.release_all();
            closed
        })
    }
}
