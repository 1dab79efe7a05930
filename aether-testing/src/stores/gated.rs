//! A store behind a gate that decides about every write and read: what the faulty stores of this crate are made of.
//!
//! Promise: what the gate lets pass reaches the inner store unchanged; a frozen call never answers, and an append
//! whose acknowledgement is withheld stays unanswered until the store is dropped.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::LargeValue;
use aether_core::journal::StoredFrame;
use aether_core::payload::Payload;
use aether_core::queue::{LimitPattern, Serves};
use aether_core::store::StoredEffect;
use aether_core::store::ledger::{LedgerEntry, Reservation};
use aether_core::store::{
    Ack, Append, AppendError, ClaimRequest, Created, Cursor, DamagedRun, Decision, DefinitionRecord,
    DueSchedules, DueStarts, Durability, DurableWatermark, EndedRuns, ForeignRuns, KeyedStart, KnownWorker,
    Lease, Limit, ListedWait, LostRun, Message, NewRun, OpenWait, Purged, QueuePosition, Recode, RunFilter,
    RunRecord, RunRow, ScheduleRecord, Sent, Serving, Snapshot, Store, StoreError, Unread, WaitFilter,
    WorkerRecord,
};
use aether_core::store::{StreamItem, StreamWrite};
use futures_util::future::{BoxFuture, pending, ready};
use jiff::Timestamp;

/// A call of a store, by its sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCall {
    /// Appends to a run.
    Append,
    /// Creates a run.
    Create,
    /// Loads a run's frames.
    Load,
    /// Claims runs.
    Claim,
    /// Releases a run.
    Release,
    /// Reserves a store-wide business key.
    Reserve,
    /// Keeps an outcome, or a large value, before it is in the journal.
    Effect,
    /// Any other write: leases, messages, progress, snapshots.
    Write,
    /// Reads a large value.
    Blob,
    /// Any other read: runs, ledger rows, messages, snapshots.
    Read,
}

/// What is to happen with one call.
#[derive(Clone, Debug)]
pub enum GateDecision {
    /// The inner store answers.
    Pass,
    /// Nothing is done, and this is the answer.
    Fail(AppendError),
    /// Nothing is done, and no answer comes.
    Freeze,
    /// It is done, and no answer comes. [`Gate::took_effect`] is told when it is done.
    Unacknowledged,
    /// It is done, and this is the answer.
    Misreport(AppendError),
    /// A write is kept back as it is, to arrive later; no answer comes.
    Stall,
    /// A large value is not found.
    Lose,
    /// A write to streams is done so much later, whether its caller still waits or not, and this then says so.
    Late(Duration, Arc<AtomicBool>),
}

/// Decides what happens with each call of a store.
pub trait Gate: Send + Sync + Debug + 'static {
    /// What is to happen with the next call.
    fn decide(&self, call: StoreCall) -> GateDecision;

    /// What is to happen with this append.
    fn decide_append(&self, _append: &Append) -> GateDecision {
        self.decide(StoreCall::Append)
    }

    /// What is to happen with this creation of a run.
    fn decide_create(&self, _new: &NewRun) -> GateDecision {
        self.decide(StoreCall::Create)
    }

    /// What is to happen with this write to streams.
    fn decide_streams(&self, _writes: &[StreamWrite]) -> GateDecision {
        self.decide(StoreCall::Write)
    }

    /// These streams, by run and name, were written to in the store behind the gate.
    fn wrote_streams<'a>(
        &'a self,
        _inner: &'a Arc<dyn Store>,
        _streams: Vec<(RunId, String)>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }

    /// A call that was to go unacknowledged is done, or was given up by its caller.
    fn took_effect(&self) {}

    /// What is answered to a claim that got these leases.
    ///
    /// # Errors
    /// Where the answer is to be lost.
    fn claimed(&self, leases: Vec<Lease>) -> Result<Vec<Lease>, StoreError> {
        Ok(leases)
    }

    /// Passes an append to the store behind the gate.
    fn deliver(&self, inner: &Arc<dyn Store>, append: Append) {
        inner.append(append);
    }
}

/// Tells the gate that a call is done, also where its caller stops waiting for it.
struct Done<'g, G: Gate>(&'g G);

impl<G: Gate> Drop for Done<'_, G> {
    fn drop(&mut self) {
        self.0.took_effect();
    }
}

/// A store behind a gate.
#[derive(Debug)]
pub struct Gated<G> {
    inner: Arc<dyn Store>,
    pub(crate) gate: G,
    withheld: Mutex<Vec<Ack>>,
    stalled: Mutex<Option<Append>>,
}

impl<G: Gate> Gated<G> {
    pub(crate) fn behind(inner: Arc<dyn Store>, gate: G) -> Self {
        Self { inner, gate, withheld: Mutex::default(), stalled: Mutex::default() }
    }

    fn withhold(&self, ack: Ack) {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner).push(ack);
    }

    /// The append that was kept back, if one was.
    pub(crate) fn take_stalled(&self) -> Option<Append> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Lets `append` take effect, with `answer` in place of the store's; `None` for no answer.
    fn append_unacknowledged(&self, mut append: Append, answer: Option<AppendError>) {
        let next = append.expected + Position::from(append.frame.count);
        let silent = Ack::silent(append.run.clone(), next, Arc::new(DurableWatermark::default()));
        let ack = std::mem::replace(&mut append.ack, silent);
        self.gate.deliver(&self.inner, append);
        match answer {
            Some(error) => ack.failed(error),
            None => {
                self.withhold(ack);
                // The store has it, and decides appends in their order.
                self.gate.took_effect();
            }
        }
    }

    fn call<'a, T: Send + 'a, E: From<StoreError> + Send + 'a>(
        &'a self,
        call: StoreCall,
        answer: impl FnOnce() -> BoxFuture<'a, Result<T, E>>,
    ) -> BoxFuture<'a, Result<T, E>> {
        self.decided(self.gate.decide(call), answer)
    }

    fn decided<'a, T: Send + 'a, E: From<StoreError> + Send + 'a>(
        &'a self,
        decision: GateDecision,
        answer: impl FnOnce() -> BoxFuture<'a, Result<T, E>>,
    ) -> BoxFuture<'a, Result<T, E>> {
        match decision {
            GateDecision::Pass | GateDecision::Lose | GateDecision::Late(..) => answer(),
            GateDecision::Fail(error) => Box::pin(ready(Err(self.store_error(error).into()))),
            GateDecision::Freeze | GateDecision::Stall => Box::pin(pending()),
            GateDecision::Misreport(error) => {
                let (answer, error) = (answer(), self.store_error(error));
                Box::pin(async move { answer.await.and(Err(error.into())) })
            }
            GateDecision::Unacknowledged => {
                let (answer, done) = (answer(), Done(&self.gate));
                Box::pin(async move {
                    let _lost = answer.await;
                    drop(done);
                    pending().await
                })
            }
        }
    }

    fn store_error(&self, error: AppendError) -> StoreError {
        match error {
            AppendError::Store(error) => error,
            other => StoreError::Unavailable { store: self.inner.describe(), reason: other.to_string() },
        }
    }
}

impl<G: Gate> Store for Gated<G> {
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
        self.inner.register(worker, lease, codes)
    }

    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<CodeId>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.codes_elsewhere(me))
    }

    fn serve(&self, worker: &WorkerId, serves: Serves) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.serve(worker, serves)
    }

    fn serving_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<Serving>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.serving_elsewhere(me))
    }

    fn known_workers(&self) -> BoxFuture<'_, Result<Vec<KnownWorker>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.known_workers())
    }

    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.call(StoreCall::Write, || self.inner.recode(runs))
    }

    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.foreign(query))
    }

    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Write, || self.inner.put_definition(definition))
    }

    fn definitions(&self) -> BoxFuture<'_, Result<Vec<DefinitionRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.definitions())
    }

    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Result<Vec<ListedWait>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.waits(filter))
    }

    fn unlisted_waits(&self, limit: usize) -> BoxFuture<'_, Result<Vec<RunId>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.unlisted_waits(limit))
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        self.inner.list_waits(run, next, waits)
    }

    /// Let through: it only tells an engine where to look.
    fn held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, Epoch)>, StoreError>> {
        self.inner.held(worker)
    }

    /// Let through: it only tells an engine where to look.
    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, u64)>, StoreError>> {
        self.inner.unread_held(worker)
    }

    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.workers())
    }

    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Release, || self.inner.retire(worker))
    }

    fn unaware_owners(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<WorkerId>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.unaware_owners(run))
    }

    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.decided(self.gate.decide_create(&new), || self.inner.create(new))
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.decided(self.gate.decide_create(&new), || self.inner.create_decided(new, decision))
    }

    fn create_fork(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.decided(self.gate.decide_create(&new), || self.inner.create_fork(new, ledger))
    }

    fn append(&self, append: Append) {
        match self.gate.decide_append(&append) {
            GateDecision::Pass | GateDecision::Lose | GateDecision::Late(..) => {
                self.gate.deliver(&self.inner, append)
            }
            GateDecision::Fail(error) => append.ack.failed(error),
            GateDecision::Freeze => self.withhold(append.ack),
            GateDecision::Unacknowledged => self.append_unacknowledged(append, None),
            GateDecision::Misreport(error) => self.append_unacknowledged(append, Some(error)),
            GateDecision::Stall => {
                *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = Some(append);
            }
        }
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>> {
        self.call(StoreCall::Load, || self.inner.load(run, from))
    }

    fn load_page<'s>(
        &'s self,
        run: &RunId,
        from: Position,
        events: u64,
    ) -> BoxFuture<'s, Result<Vec<StoredFrame>, StoreError>> {
        self.call(StoreCall::Load, || self.inner.load_page(run, from, events))
    }

    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.last_frame(run))
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.run(run))
    }

    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.runs(filter))
    }

    fn damaged_runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<DamagedRun>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.damaged_runs(filter))
    }

    fn run_rows(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.run_rows(filter))
    }

    fn damage(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.damage())
    }

    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.call(StoreCall::Read, || self.inner.count(filter))
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        let claim =
            || Box::pin(async { self.gate.claimed(self.inner.claim(request).await?) }) as BoxFuture<'_, _>;
        self.call(StoreCall::Claim, claim)
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Result<Vec<LostRun>, StoreError>> {
        self.call(StoreCall::Write, || self.inner.renew(worker, lease, noticed))
    }

    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Release, || self.inner.release(worker, run, epoch, wake_at))
    }

    fn hasten(&self, now: Timestamp, beyond: Timestamp) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.call(StoreCall::Release, || self.inner.hasten(now, beyond))
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.next_wake())
    }

    fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.entry(run, key))
    }

    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Result<Reservation, StoreError>> {
        self.call(StoreCall::Reserve, || self.inner.reserve(wanted, replaces))
    }

    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Result<Option<Reservation>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.reservation(business_key))
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.ended(query))
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>> {
        self.call(StoreCall::Write, || self.inner.purge(run, created_at))
    }

    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.entries(run))
    }

    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>> {
        self.call(StoreCall::Write, || self.inner.send(run, message))
    }

    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<Vec<Message>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.inbox(run, after))
    }

    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Unread, StoreError>> {
        self.call(StoreCall::Read, || self.inner.unread(run))
    }

    /// Let through: it only tells an engine where to look.
    fn unread_waiting(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunRecord, u64)>, StoreError>> {
        self.inner.unread_waiting(after, limit)
    }

    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Effect, || self.inner.put_blob(run, hash, bytes))
    }

    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>> {
        self.call(StoreCall::Effect, || self.inner.put_effect(effect, epoch, values))
    }

    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.effects(run))
    }

    fn blob(&self, run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        match self.gate.decide(StoreCall::Blob) {
            GateDecision::Lose => Box::pin(ready(Ok(None))),
            decision => self.decided(decision, || self.inner.blob(run, hash)),
        }
    }

    fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Write, || self.inner.save_progress(run, epoch, command, progress))
    }

    fn progress(
        &self,
        run: &RunId,
        command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.progress(run, command))
    }

    fn write_streams(
        &self,
        writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        let decision = self.gate.decide_streams(&writes);
        if let GateDecision::Late(wait, done) = decision {
            let inner = Arc::clone(&self.inner);
            // A task of its own: its caller gives it up.
            let late = tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                let written = inner.write_streams(writes).await;
                done.store(true, Ordering::Relaxed);
                written
            });
            // Where the runtime ends before, no answer comes.
            return Box::pin(async move {
                match late.await {
                    Ok(written) => written,
                    Err(_) => pending().await,
                }
            });
        }
        let streams = writes.iter().map(|write| (write.run.clone(), write.stream.clone())).collect();
        self.decided(decision, || {
            let written = self.inner.write_streams(writes);
            Box::pin(async move {
                let written = written.await?;
                self.gate.wrote_streams(&self.inner, streams).await;
                Ok(written)
            })
        })
    }

    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<CommandId>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.open_streams(run))
    }

    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StreamItem>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.stream(run, stream, after, limit))
    }

    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Write, || self.inner.save_snapshot(run, snapshot))
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.snapshot(run))
    }

    fn put_schedule(
        &self,
        schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.call(StoreCall::Write, || self.inner.put_schedule(schedule, replaces))
    }

    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.schedules(after, limit))
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.schedule(name))
    }

    fn put_limit(&self, limit: Limit) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Write, || self.inner.put_limit(limit))
    }

    fn remove_limit(&self, pattern: &LimitPattern, kind: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.call(StoreCall::Write, || self.inner.remove_limit(pattern, kind))
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<Limit>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.limits())
    }

    fn queue_position(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Option<QueuePosition>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.queue_position(run, now))
    }

    fn keyed_start(&self, name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.keyed_start(name))
    }

    fn put_keyed_start(&self, start: KeyedStart, replaces: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.call(StoreCall::Write, || self.inner.put_keyed_start(start, replaces))
    }

    fn remove_keyed_start(&self, name: &str, revision: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.call(StoreCall::Write, || self.inner.remove_keyed_start(name, revision))
    }

    fn due_starts(&self, query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.due_starts(query))
    }

    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        self.call(StoreCall::Read, || self.inner.due_schedules(query))
    }

    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.call(StoreCall::Write, || self.inner.remove_schedule(name))
    }

    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Write, || self.inner.delete_snapshots())
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(StoreCall::Write, || self.inner.close())
    }
}
