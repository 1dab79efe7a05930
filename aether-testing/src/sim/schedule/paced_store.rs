//! A store between the engine and the one that dies with its process: writes go through one queue, and each call may be
//! held before it is done and before it is answered.
//!
//! Promise: writes are done in the order in which they were asked for, though who asked is gone; reads pass them. A write
//! that was not done when the process ended is never done.

use std::sync::Arc;
use std::time::Duration;

use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::LargeValue;
use aether_core::journal::StoredFrame;
use aether_core::payload::Payload;
use aether_core::queue::{LimitPattern, Serves};
use aether_core::store::StoredEffect;
use aether_core::store::ledger::{LedgerEntry, Reservation};
use aether_core::store::{
    Ack, Append, AppendError, AppendReply, ClaimRequest, Created, Cursor, DamagedRun, Decision,
    DefinitionRecord, DueSchedules, DueStarts, Durability, DurableWatermark, EndedRuns, ForeignRuns,
    KeyedStart, KnownWorker, Lease, Limit, ListedWait, LostRun, Message, NewRun, OpenWait, Purged,
    QueuePosition, Recode, RunFilter, RunRecord, ScheduleRecord, Sent, Serving, Snapshot, Store, StoreError,
    Unread, WaitFilter, WorkerRecord,
};
use aether_core::store::{StreamItem, StreamWrite};
use futures_util::future::{BoxFuture, pending};
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::pace::Pace;
use super::plan::PointKind;
use crate::stores::crash::kinds;

type Job = BoxFuture<'static, ()>;

/// The store of one process of a schedule.
#[derive(Debug)]
pub(crate) struct PacedStore {
    inner: Arc<dyn Store>,
    pace: Arc<Pace>,
    writes: UnboundedSender<Job>,
    acks: UnboundedSender<(Ack, AppendReply)>,
}

impl PacedStore {
    /// A store in front of `inner`, with its queue on this runtime.
    pub(crate) fn new(inner: Arc<dyn Store>, pace: Arc<Pace>) -> Self {
        let (writes, waiting) = unbounded_channel();
        let (acks, answered) = unbounded_channel();
        tokio::spawn(write_all(waiting));
        tokio::spawn(acknowledge_all(answered, Arc::clone(&pace)));
        Self { inner, pace, writes, acks }
    }

    fn write<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(Arc<dyn Store>) -> BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T> {
        let (answer, answered) = oneshot::channel();
        let (work, pace) = (work(Arc::clone(&self.inner)), Arc::clone(&self.pace));
        let job = async move {
            pace.pass(PointKind::Write, || what.into()).await;
            // Who asked may be gone; it is done all the same.
            let _gone = answer.send(work.await);
        };
        let _process_ended = self.writes.send(Box::pin(job));
        let pace = Arc::clone(&self.pace);
        Box::pin(async move {
            let Ok(answer) = answered.await else { return pending().await };
            pace.pass(PointKind::Ack, || what.into()).await;
            answer
        })
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        what: &'static str,
        answer: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.pace.pass(PointKind::Read, || what.into()).await;
            let answer = answer.await;
            self.pace.pass(PointKind::Found, || what.into()).await;
            answer
        })
    }
}

/// Does the writes of a process, one after another.
async fn write_all(mut waiting: UnboundedReceiver<Job>) {
    while let Some(job) = waiting.recv().await {
        job.await;
    }
}

/// Passes the answers to appends on, in their order.
async fn acknowledge_all(mut answered: UnboundedReceiver<(Ack, AppendReply)>, pace: Arc<Pace>) {
    while let Some((ack, reply)) = answered.recv().await {
        // An error: it was frozen, and the process is dead.
        let Ok(answer) = reply.await else { return pending().await };
        pace.pass(PointKind::Ack, || "append".into()).await;
        match answer {
            Ok(receipt) => ack.durable(receipt.acquired),
            Err(error) => ack.failed(error),
        }
    }
}

impl Store for PacedStore {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn transactions(&self) -> Option<&'static str> {
        self.inner.transactions()
    }

    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let worker = worker.clone();
        self.write("register", move |inner| {
            Box::pin(async move { inner.register(&worker, lease, codes).await })
        })
    }

    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<CodeId>, StoreError>> {
        self.read("codes of other workers", self.inner.codes_elsewhere(me))
    }

    fn serve(&self, worker: &WorkerId, serves: Serves) -> BoxFuture<'_, Result<(), StoreError>> {
        let worker = worker.clone();
        self.write("what a worker serves", move |inner| {
            Box::pin(async move { inner.serve(&worker, serves).await })
        })
    }

    fn serving_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<Serving>, StoreError>> {
        self.read("what other workers serve", self.inner.serving_elsewhere(me))
    }

    fn known_workers(&self) -> BoxFuture<'_, Result<Vec<KnownWorker>, StoreError>> {
        self.read("known workers", self.inner.known_workers())
    }

    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.write("recode", move |inner| Box::pin(async move { inner.recode(runs).await }))
    }

    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        self.read("runs of other code", self.inner.foreign(query))
    }

    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write("definition", move |inner| Box::pin(async move { inner.put_definition(definition).await }))
    }

    fn definitions(&self) -> BoxFuture<'_, Result<Vec<DefinitionRecord>, StoreError>> {
        self.read("definitions", self.inner.definitions())
    }

    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerRecord>, StoreError>> {
        self.read("workers", self.inner.workers())
    }

    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>> {
        let worker = worker.clone();
        self.write("retire", move |inner| Box::pin(async move { inner.retire(&worker).await }))
    }

    fn unaware_owners(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<WorkerId>, StoreError>> {
        self.read("unaware owners", self.inner.unaware_owners(run))
    }

    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.write("create", move |inner| Box::pin(async move { inner.create(new).await }))
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.write("create decided", move |inner| {
            Box::pin(async move { inner.create_decided(new, decision).await })
        })
    }

    fn create_fork(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.write("create fork", move |inner| Box::pin(async move { inner.create_fork(new, ledger).await }))
    }

    fn append(&self, mut append: Append) {
        let next = append.expected + Position::from(append.frame.count);
        let (ack, reply) = Ack::awaited(append.run.clone(), next, Arc::new(DurableWatermark::default()));
        let ack = std::mem::replace(&mut append.ack, ack);
        let (inner, pace, acks) = (Arc::clone(&self.inner), Arc::clone(&self.pace), self.acks.clone());
        let _process_ended = self.writes.send(Box::pin(async move {
            pace.pass(PointKind::Write, || format!("append of {}", kinds(&append.frame.text))).await;
            inner.append(append);
            let _process_ended = acks.send((ack, reply));
        }));
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>> {
        self.read("load", self.inner.load(run, from))
    }

    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>> {
        self.read("last frame", self.inner.last_frame(run))
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        self.read("run", self.inner.run(run))
    }

    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        self.read("runs", self.inner.runs(filter))
    }

    fn damaged_runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<DamagedRun>, StoreError>> {
        self.read("damaged_runs", self.inner.damaged_runs(filter))
    }

    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.read("count", self.inner.count(filter))
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        self.write("claim", move |inner| Box::pin(async move { inner.claim(request).await }))
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Result<Vec<LostRun>, StoreError>> {
        let worker = worker.clone();
        self.write("renew", move |inner| Box::pin(async move { inner.renew(&worker, lease, noticed).await }))
    }

    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (worker, run) = (worker.clone(), run.clone());
        self.write("release", move |inner| {
            Box::pin(async move { inner.release(&worker, &run, epoch, wake_at).await })
        })
    }

    fn hasten(&self, now: Timestamp, beyond: Timestamp) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.write("hasten", move |inner| Box::pin(async move { inner.hasten(now, beyond).await }))
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.read("next wake", self.inner.next_wake())
    }

    fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        self.read("ledger row", self.inner.entry(run, key))
    }

    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Result<Reservation, StoreError>> {
        self.write("reservation", move |inner| Box::pin(async move { inner.reserve(wanted, replaces).await }))
    }

    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Result<Option<Reservation>, StoreError>> {
        self.read("reservation", self.inner.reservation(business_key))
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>> {
        self.read("ended runs", self.inner.ended(query))
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>> {
        let run = run.clone();
        self.write("purge", move |inner| Box::pin(async move { inner.purge(&run, created_at).await }))
    }

    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>> {
        self.read("ledger", self.inner.entries(run))
    }

    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>> {
        let run = run.clone();
        self.write("message", move |inner| Box::pin(async move { inner.send(&run, message).await }))
    }

    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<Vec<Message>, StoreError>> {
        self.read("inbox", self.inner.inbox(run, after))
    }

    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Unread, StoreError>> {
        self.read("unread", self.inner.unread(run))
    }

    fn unread_waiting(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunRecord, u64)>, StoreError>> {
        self.read("runs with unread messages", self.inner.unread_waiting(after, limit))
    }

    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Result<Vec<ListedWait>, StoreError>> {
        self.read("open waits", self.inner.waits(filter))
    }

    fn unlisted_waits(&self, limit: usize) -> BoxFuture<'_, Result<Vec<RunId>, StoreError>> {
        // Not a point of the schedule: it is empty but where a test cut a journal off.
        self.inner.unlisted_waits(limit)
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        let run = run.clone();
        self.write("open waits", move |inner| {
            Box::pin(async move { inner.list_waits(&run, next, waits).await })
        })
    }

    fn held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, Epoch)>, StoreError>> {
        self.read("held runs", self.inner.held(worker))
    }

    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, u64)>, StoreError>> {
        self.read("held runs with unread messages", self.inner.unread_held(worker))
    }

    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        self.write("large value", move |inner| {
            Box::pin(async move { inner.put_blob(&run, &hash, bytes).await })
        })
    }

    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>> {
        self.write("effect", move |inner| {
            Box::pin(async move { inner.put_effect(effect, epoch, values).await })
        })
    }

    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>> {
        self.read("effects", self.inner.effects(run))
    }

    fn blob(&self, run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        self.read("large value", self.inner.blob(run, hash))
    }

    fn write_streams(
        &self,
        writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        self.write("streams", move |inner| Box::pin(async move { inner.write_streams(writes).await }))
    }

    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<CommandId>, StoreError>> {
        self.read("open_streams", self.inner.open_streams(run))
    }

    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StreamItem>, StoreError>> {
        self.read("stream", self.inner.stream(run, stream, after, limit))
    }

    fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, command) = (run.clone(), command.clone());
        self.write("progress", move |inner| {
            Box::pin(async move { inner.save_progress(&run, epoch, &command, progress).await })
        })
    }

    fn progress(
        &self,
        run: &RunId,
        command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        self.read("progress", self.inner.progress(run, command))
    }

    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>> {
        let run = run.clone();
        self.write("snapshot", move |inner| {
            Box::pin(async move { inner.save_snapshot(&run, snapshot).await })
        })
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>> {
        self.read("snapshot", self.inner.snapshot(run))
    }

    fn put_schedule(
        &self,
        schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.write("schedule", move |inner| {
            Box::pin(async move { inner.put_schedule(schedule, replaces).await })
        })
    }

    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        self.read("schedules", self.inner.schedules(after, limit))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        self.read("schedules", self.inner.schedule(name))
    }

    fn put_limit(&self, limit: Limit) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write("limit", move |inner| Box::pin(async move { inner.put_limit(limit).await }))
    }

    fn remove_limit(&self, pattern: &LimitPattern, kind: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let (pattern, kind) = (pattern.clone(), kind.to_owned());
        self.write("remove limit", move |inner| {
            Box::pin(async move { inner.remove_limit(&pattern, &kind).await })
        })
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<Limit>, StoreError>> {
        self.read("limits", self.inner.limits())
    }

    fn queue_position(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Option<QueuePosition>, StoreError>> {
        self.read("queue position", self.inner.queue_position(run, now))
    }

    fn keyed_start(&self, name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        self.read("keyed start", self.inner.keyed_start(name))
    }

    fn put_keyed_start(&self, start: KeyedStart, replaces: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.write("keyed start", move |inner| {
            Box::pin(async move { inner.put_keyed_start(start, replaces).await })
        })
    }

    fn remove_keyed_start(&self, name: &str, revision: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        self.write("remove keyed start", move |inner| {
            Box::pin(async move { inner.remove_keyed_start(&name, revision).await })
        })
    }

    /// Not a point of the schedule: it is empty but where a test starts runs under keys.
    fn due_starts(&self, query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        self.inner.due_starts(query)
    }

    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        self.read("schedules", self.inner.due_schedules(query))
    }

    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        self.write("remove schedule", move |inner| {
            Box::pin(async move { inner.remove_schedule(&name).await })
        })
    }

    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write("delete snapshots", move |inner| Box::pin(async move { inner.delete_snapshots().await }))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write("close", move |inner| Box::pin(async move { inner.close().await }))
    }
}
