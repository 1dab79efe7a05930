//! One process's way to the content that all engines of a story share: writes go through a queue of its own to a writer
//! task that commits them in batches, reads happen when the schedule says so.
//!
//! Promise: a write is queued when it is called, and is done though its caller is gone; a batch takes effect whole, or,
//! while the medium fails, not at all, and its appends are tried again in their order, as in the embedded store; its answers come one by one, and other tasks may run between them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::{LargeValue, StoredFrame};
use aether_core::payload::Payload;
use aether_core::store::ledger::{LedgerEntry, Reservation};
use aether_core::store::memory::MemoryStore;
use aether_core::store::{
    Ack, Append, AppendError, BirthNotice, ClaimRequest, Created, Cursor, Decision, DefinitionRecord,
    DueSchedules, Durability, EndedRuns, ForeignRuns, KnownWorker, Lease, ListedWait, LostRun, Message,
    NewRun, OpenWait, Purged, Recode, RunFilter, RunRecord, ScheduleRecord, Sent, Snapshot, Store,
    StoreError, StoredEffect, StreamItem, StreamWrite, Unread, WaitFilter, WorkerRecord,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};

use crate::judge;
use crate::sim::{self, task::quiet};
use crate::story::Medium;
use crate::world::sleep;

type Answer<T> = Result<T, StoreError>;
/// Tells the caller of a write what came of it.
type Reply = Box<dyn FnOnce() + Send>;
/// A write: done on the content, or failed with the error of the medium.
type Work = Box<dyn FnOnce(Result<&MemoryStore, StoreError>) -> Reply + Send>;

/// A write in the queue.
struct Job {
    work: Work,
    /// It is tried again while the medium has no room or is locked, as appends are. Others are answered with the error.
    kept: bool,
}

/// Until when the medium fails, and how.
pub type Faults = Arc<Mutex<Option<(u64, Medium)>>>;

/// The store of one engine.
pub struct SimStore {
    engine: u32,
    memory: MemoryStore,
    writer: Arc<Writer>,
    slow: bool,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.engine)
    }
}

#[derive(Default)]
struct Writer {
    queue: Mutex<VecDeque<Job>>,
    bell: Notify,
    faults: [Faults; 2],
}

impl Writer {
    fn push(&self, work: Work, kept: bool) {
        sim::point("write");
        self.queue().push_back(Job { work, kept });
        sim::point("queued");
        self.bell.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self) -> Option<(Medium, StoreError)> {
        let now = |faults: &Faults| {
            let fault = *faults.lock().unwrap_or_else(PoisonError::into_inner);
            fault.filter(|(until, _)| sim::now() < *until)
        };
        let (_, medium) = self.faults.iter().find_map(now)?;
        let (store, reason) = ("sim".to_owned(), "for a while".to_owned());
        let error = match medium {
            Medium::Full => StoreError::Full { store, reason },
            Medium::Locked => StoreError::Locked { store, reason },
            Medium::Gone => StoreError::Unavailable { store, reason },
        };
        Some((medium, error))
    }

    /// Commits batches for ever.
    async fn run(&self, memory: MemoryStore, slow: bool) {
        let mut pause = SHORTEST;
        loop {
            delay(slow).await;
            let batch = std::mem::take(&mut *self.queue());
            if batch.is_empty() {
                self.bell.notified().await;
                continue;
            }
            let fault = self.fault();
            let replies = match &fault {
                None => quiet(|| batch.into_iter().map(|job| (job.work)(Ok(&memory))).collect::<Vec<_>>()),
                Some((medium, error)) => self.fail(batch, *medium, error),
            };
            for reply in replies {
                sim::point("committed");
                reply();
            }
            pause = if fault.is_some() { (pause * 2).min(LONGEST) } else { SHORTEST };
            if fault.is_some() {
                sleep(pause).await;
            }
        }
    }

    /// Answers those that are not kept; the others are the first of the next batch.
    fn fail(&self, batch: VecDeque<Job>, medium: Medium, error: &StoreError) -> Vec<Reply> {
        let (kept, failed): (VecDeque<_>, VecDeque<_>) =
            batch.into_iter().partition(|job| job.kept && medium != Medium::Gone);
        let mut queue = self.queue();
        let behind = std::mem::replace(&mut *queue, kept);
        queue.extend(behind);
        drop(queue);
        quiet(|| failed.into_iter().map(|job| (job.work)(Err(error.clone()))).collect())
    }
}

/// Pauses between tries while the medium fails, in microseconds.
const SHORTEST: u64 = 1_000;
/// Short beside the lease, as the embedded store's are beside the default one.
const LONGEST: u64 = 60_000;

async fn delay(slow: bool) {
    match sim::draw(if slow { 8 } else { 6 }) {
        0 | 1 => {}
        2 | 3 => sleep(0).await,
        4 | 5 => sleep(sim::draw(300)).await,
        6 => sleep(sim::draw(5_000)).await,
        _ => sleep(sim::draw(40_000)).await,
    }
}

impl SimStore {
    /// The store of `engine`, whose writer runs in the engine's group. The faults are its own, and those of the file.
    pub fn new(engine: u32, memory: MemoryStore, faults: [Faults; 2], slow: bool) -> Arc<Self> {
        let writer = Arc::new(Writer { faults, ..Writer::default() });
        let (content, running) = (memory.clone(), Arc::clone(&writer));
        sim::spawn_in(engine, "writer", async move { running.run(content, slow).await });
        Arc::new(Self { engine, memory, writer, slow })
    }

    /// Queued before this returns; done whether or not the caller waits.
    fn write<T: Send + 'static>(
        &self,
        call: impl FnOnce(&MemoryStore) -> Answer<T> + Send + 'static,
    ) -> BoxFuture<'_, Answer<T>> {
        self.write_or_keep(call, false)
    }

    fn write_or_keep<T, E>(
        &self,
        call: impl FnOnce(&MemoryStore) -> Result<T, E> + Send + 'static,
        kept: bool,
    ) -> BoxFuture<'_, Result<T, E>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.write_and(move |memory| (memory.map_err(E::from).and_then(call), || {}), kept)
    }

    /// As [`SimStore::write_or_keep`], of a call that is also told of a medium that fails; what it returns beside its answer
    /// is done before the caller has that.
    fn write_and<T, E, S>(
        &self,
        call: impl FnOnce(Result<&MemoryStore, StoreError>) -> (Result<T, E>, S) + Send + 'static,
        kept: bool,
    ) -> BoxFuture<'_, Result<T, E>>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        S: FnOnce() + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |memory| {
            let (done, settle) = call(memory);
            Box::new(move || {
                settle();
                let _gone = answer.send(done);
            })
        });
        self.writer.push(work, kept);
        let closed = |_| StoreError::Unavailable { store: "sim".into(), reason: "closed".into() };
        async move { answered.await.map_err(closed)? }.boxed()
    }

    fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&MemoryStore) -> Answer<T> + Send + 'static,
    ) -> BoxFuture<'_, Answer<T>> {
        async move {
            sim::point("read");
            delay(self.slow).await;
            let answer = quiet(|| call(&self.memory));
            delay(self.slow).await;
            answer
        }
        .boxed()
    }
}

/// What the content answers: it always does at once.
///
/// # Errors
/// As the content's own.
pub fn now<T, E: From<StoreError>>(answer: BoxFuture<'_, Result<T, E>>) -> Result<T, E> {
    let late = StoreError::Unavailable { store: "memory".into(), reason: "no answer at once".into() };
    answer.now_or_never().unwrap_or(Err(late.into()))
}

/// Appends to the content; the answer is kept for later.
fn append(mut append: Append, memory: Result<&MemoryStore, StoreError>) -> Reply {
    let memory = match memory {
        Ok(memory) => memory,
        Err(error) => return Box::new(move || append.ack.failed(error.into())),
    };
    if let Some(refused) = append.unborn() {
        return Box::new(move || append.ack.failed(refused));
    }
    let (own, reply) = Ack::awaited(append.run.clone(), append.expected, Arc::default());
    let ack = std::mem::replace(&mut append.ack, own);
    let (run, status) = (append.run.clone(), append.status.clone());
    memory.append(append);
    judge::listed(memory, &run);
    match reply.now_or_never() {
        Some(Ok(Ok(receipt))) => {
            if let Some(status) = status {
                judge::changed(memory, &run, &status);
            }
            Box::new(move || ack.durable(receipt.acquired))
        }
        Some(Ok(Err(error))) => Box::new(move || ack.failed(error)),
        // Dropped unanswered, as `ack` is now.
        _ => Box::new(move || drop(ack)),
    }
}

impl Store for SimStore {
    fn describe(&self) -> String {
        "sim".into()
    }

    fn durability(&self) -> Durability {
        self.memory.durability()
    }

    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Answer<bool>> {
        judge::registered(self.engine, worker);
        let worker = worker.clone();
        self.write(move |memory| now(memory.register(&worker, lease, codes)))
    }

    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Answer<Vec<CodeId>>> {
        let me = me.clone();
        self.read(move |memory| now(memory.codes_elsewhere(&me)))
    }

    fn known_workers(&self) -> BoxFuture<'_, Answer<Vec<KnownWorker>>> {
        self.read(move |memory| now(memory.known_workers()))
    }

    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Answer<usize>> {
        self.write(move |memory| now(memory.recode(runs)))
    }

    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Answer<Vec<RunRecord>>> {
        self.read(move |memory| now(memory.foreign(query)))
    }

    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Answer<()>> {
        self.write(move |memory| now(memory.put_definition(definition)))
    }

    fn definitions(&self) -> BoxFuture<'_, Answer<Vec<DefinitionRecord>>> {
        self.read(|memory| now(memory.definitions()))
    }

    fn workers(&self) -> BoxFuture<'_, Answer<Vec<WorkerRecord>>> {
        self.read(|memory| now(memory.workers()))
    }

    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Answer<()>> {
        let worker = worker.clone();
        self.write(move |memory| now(memory.retire(&worker)))
    }

    fn unaware_owners(&self, run: &RunId) -> BoxFuture<'_, Answer<Vec<WorkerId>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.unaware_owners(&run)))
    }

    fn create(&self, new: NewRun) -> BoxFuture<'_, Answer<Created>> {
        let engine = self.engine;
        self.write(move |memory| judge::create(memory, engine, new))
    }

    fn create_early(&self, new: NewRun, mut notice: BirthNotice) -> BoxFuture<'_, Answer<Created>> {
        let (engine, content) = (self.engine, self.memory.clone());
        self.write_and(
            move |memory| {
                let created = match memory {
                    Ok(memory) => judge::create(memory, engine, new),
                    // As far as its transaction came before the disk was full.
                    Err(error @ StoreError::Full { .. }) => {
                        if new.parent.is_none() && now(content.run(&new.id)) == Ok(None) {
                            notice.tell();
                        }
                        Err(error)
                    }
                    Err(error) => Err(error),
                };
                let stands = created == Ok(Created::New);
                if stands {
                    notice.tell();
                }
                // Before the next batch, and before the caller knows.
                let settle = move || if stands { notice.keep() } else { drop(notice) };
                (created, settle)
            },
            false,
        )
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Answer<Created>> {
        self.write(move |memory| now(memory.create_decided(new, decision)))
    }

    fn create_fork(&self, new: NewRun, ledger: Vec<LedgerEntry>) -> BoxFuture<'_, Answer<Created>> {
        self.write(move |memory| now(memory.create_fork(new, ledger)))
    }

    fn append(&self, new: Append) {
        self.writer.push(Box::new(move |memory| append(new, memory)), true);
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Answer<Vec<StoredFrame>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.load(&run, from)))
    }

    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Answer<Option<StoredFrame>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.last_frame(&run)))
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Answer<Option<RunRecord>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.run(&run)))
    }

    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Answer<Vec<RunRecord>>> {
        self.read(move |memory| now(memory.runs(filter)))
    }

    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Answer<u64>> {
        self.read(move |memory| now(memory.count(filter)))
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Answer<Vec<Lease>>> {
        self.write(move |memory| now(memory.claim(request)))
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Answer<Vec<LostRun>>> {
        let worker = worker.clone();
        self.write(move |memory| now(memory.renew(&worker, lease, noticed)))
    }

    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Answer<()>> {
        let (worker, run) = (worker.clone(), run.clone());
        self.write(move |memory| now(memory.release(&worker, &run, epoch, wake_at)))
    }

    fn hasten(&self, at: Timestamp, beyond: Timestamp) -> BoxFuture<'_, Answer<usize>> {
        self.write(move |memory| now(memory.hasten(at, beyond)))
    }

    fn next_wake(&self) -> BoxFuture<'_, Answer<Option<Timestamp>>> {
        self.read(|memory| now(memory.next_wake()))
    }

    fn entry(&self, run: &RunId, key: &IdempotencyKey) -> BoxFuture<'_, Answer<Option<LedgerEntry>>> {
        let (run, key) = (run.clone(), key.clone());
        self.read(move |memory| now(memory.entry(&run, &key)))
    }

    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Answer<Reservation>> {
        self.write(move |memory| now(memory.reserve(wanted, replaces)))
    }

    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Answer<Option<Reservation>>> {
        let key = business_key.to_owned();
        self.read(move |memory| now(memory.reservation(&key)))
    }

    fn entries(&self, run: &RunId) -> BoxFuture<'_, Answer<Vec<LedgerEntry>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.entries(&run)))
    }

    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Answer<Sent>> {
        let (run, engine) = (run.clone(), self.engine);
        self.write(move |memory| judge::send(memory, engine, &run, message))
    }

    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Answer<Vec<Message>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.inbox(&run, after)))
    }

    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Answer<Unread>> {
        let run = run.clone();
        self.read(move |memory| now(memory.unread(&run)))
    }

    fn unread_waiting(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Answer<Vec<(RunRecord, u64)>>> {
        self.read(move |memory| now(memory.unread_waiting(after, limit)))
    }

    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Answer<Vec<ListedWait>>> {
        self.read(move |memory| now(memory.waits(filter)))
    }

    fn unlisted_waits(&self, limit: usize) -> BoxFuture<'_, Answer<Vec<RunId>>> {
        self.read(move |memory| now(memory.unlisted_waits(limit)))
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Answer<bool>> {
        let run = run.clone();
        self.write(move |memory| now(memory.list_waits(&run, next, waits)))
    }

    fn held(&self, worker: &WorkerId) -> BoxFuture<'_, Answer<Vec<(RunId, Epoch)>>> {
        let worker = worker.clone();
        self.read(move |memory| now(memory.held(&worker)))
    }

    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Answer<Vec<(RunId, u64)>>> {
        let worker = worker.clone();
        self.read(move |memory| now(memory.unread_held(&worker)))
    }

    fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: Payload,
    ) -> BoxFuture<'_, Answer<()>> {
        let (run, command) = (run.clone(), command.clone());
        self.write(move |memory| now(memory.save_progress(&run, epoch, &command, progress)))
    }

    fn progress(&self, run: &RunId, command: &CommandId) -> BoxFuture<'_, Answer<Option<Payload>>> {
        let (run, command) = (run.clone(), command.clone());
        self.read(move |memory| now(memory.progress(&run, &command)))
    }

    fn write_streams(&self, writes: Vec<StreamWrite>) -> BoxFuture<'_, Answer<Vec<Option<Vec<StreamItem>>>>> {
        self.write(move |memory| now(memory.write_streams(writes)))
    }

    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Answer<Vec<CommandId>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.open_streams(&run)))
    }

    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Answer<Vec<StreamItem>>> {
        let (run, stream) = (run.clone(), stream.to_owned());
        self.read(move |memory| now(memory.stream(&run, &stream, after, limit)))
    }

    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Answer<()>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        self.write_or_keep(move |memory| now(memory.put_blob(&run, &hash, bytes)), true)
    }

    fn blob(&self, run: &RunId, hash: &str) -> BoxFuture<'_, Answer<Option<Vec<u8>>>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        self.read(move |memory| now(memory.blob(&run, &hash)))
    }

    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>> {
        self.write_or_keep(move |memory| now(memory.put_effect(effect, epoch, values)), true)
    }

    fn effects(&self, run: &RunId) -> BoxFuture<'_, Answer<Vec<StoredEffect>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.effects(&run)))
    }

    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Answer<()>> {
        let run = run.clone();
        self.write(move |memory| now(memory.save_snapshot(&run, snapshot)))
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Answer<Option<Snapshot>>> {
        let run = run.clone();
        self.read(move |memory| now(memory.snapshot(&run)))
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Answer<Vec<(u64, RunRecord)>>> {
        self.read(move |memory| now(memory.ended(query)))
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Answer<Purged>> {
        let run = run.clone();
        judge::purges(self.engine, &run);
        self.write(move |memory| now(memory.purge(&run, created_at)))
    }

    fn put_schedule(&self, schedule: ScheduleRecord, replaces: u64) -> BoxFuture<'_, Answer<bool>> {
        self.write(move |memory| now(memory.put_schedule(schedule, replaces)))
    }

    fn schedules(&self, after: Option<&str>, limit: usize) -> BoxFuture<'_, Answer<Vec<ScheduleRecord>>> {
        let after = after.map(str::to_owned);
        self.read(move |memory| now(memory.schedules(after.as_deref(), limit)))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Answer<Option<ScheduleRecord>>> {
        let name = name.to_owned();
        self.read(move |memory| now(memory.schedule(&name)))
    }

    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Answer<Vec<ScheduleRecord>>> {
        self.read(move |memory| now(memory.due_schedules(query)))
    }

    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Answer<bool>> {
        let name = name.to_owned();
        self.write(move |memory| now(memory.remove_schedule(&name)))
    }

    fn delete_snapshots(&self) -> BoxFuture<'_, Answer<()>> {
        self.write(|memory| now(memory.delete_snapshots()))
    }

    fn close(&self) -> BoxFuture<'_, Answer<()>> {
        self.write_or_keep(|_| Ok::<_, StoreError>(()), true)
    }
}
