//! A store that ends the process at a chosen append: how this example shows what a crash at any moment does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether::store::StoredEffect;
use aether::store::journal::LargeValue;
use aether::store::journal::StoredFrame;
use aether::store::ledger::{LedgerEntry, Reservation};
use aether::store::{
    Ack, Append, AppendError, ClaimRequest, Created, Decision, DefinitionRecord, DueSchedules, Durability,
    DurableWatermark, EndedRuns, ForeignRuns, Lease, ListedWait, LostRun, Message, NewRun, Purged, Recode,
    RunFilter, RunRecord, RunRow, ScheduleRecord, Sent, Snapshot, Store, StoreError, WaitFilter,
    WorkerRecord,
};
use aether::store::{StreamItem, StreamWrite};
use jiff::Timestamp;

/// When to end the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// Instead of the N-th append of this process.
    At(u64),
    /// When the N-th append of this process is durable, before the engine learns of it.
    After(u64),
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Another store, up to the chosen append.
#[derive(Debug)]
pub(crate) struct CrashingStore {
    inner: Arc<dyn Store>,
    point: CrashPoint,
    /// Whether the run exists: then its creation writes nothing and is no append.
    exists: bool,
    appends: AtomicU64,
}

impl CrashingStore {
    /// `inner`, until `point`.
    pub(crate) fn new(inner: Arc<dyn Store>, point: CrashPoint, exists: bool) -> Self {
        Self { inner, point, exists, appends: AtomicU64::new(0) }
    }

    /// Counts an append. Does not return at [`CrashPoint::At`]; returns whether this is the one of [`CrashPoint::After`].
    fn count(&self) -> bool {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        match self.point {
            CrashPoint::At(at) if at == number => crash(),
            CrashPoint::At(_) => false,
            CrashPoint::After(after) => after == number,
        }
    }
}

/// No destructor runs and nothing is flushed, as with `kill -9`.
fn crash() -> ! {
    eprintln!("  -- crash on request: the process ends here --");
    std::process::abort()
}

impl Store for CrashingStore {
    fn create(&self, new: NewRun) -> Answer<'_, Created> {
        let last = !self.exists && self.count();
        let created = self.inner.create(new);
        Box::pin(async move {
            let created = created.await;
            if last { crash() } else { created }
        })
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> Answer<'_, Created> {
        self.inner.create_decided(new, decision)
    }

    fn create_fork(&self, new: NewRun, ledger: Vec<LedgerEntry>) -> Answer<'_, Created> {
        self.inner.create_fork(new, ledger)
    }

    fn append(&self, mut append: Append) {
        if self.count() {
            let next = append.expected + u64::from(append.frame.count);
            let (ack, durable) =
                Ack::awaited(append.run.clone(), next, Arc::new(DurableWatermark::default()));
            let kept_back = std::mem::replace(&mut append.ack, ack);
            tokio::spawn(async move {
                let _durable_or_lost = durable.await;
                let _never_answered = kept_back;
                crash()
            });
        }
        self.inner.append(append);
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn durability(&self) -> Durability {
        self.inner.durability()
    }
    fn transactions(&self) -> Option<&'static str> {
        self.inner.transactions()
    }
    fn register(&self, worker: &WorkerId, lease: Duration, codes: Vec<CodeId>) -> Answer<'_, bool> {
        self.inner.register(worker, lease, codes)
    }
    fn codes_elsewhere(&self, me: &WorkerId) -> Answer<'_, Vec<CodeId>> {
        self.inner.codes_elsewhere(me)
    }
    fn recode(&self, runs: Vec<Recode>) -> Answer<'_, usize> {
        self.inner.recode(runs)
    }
    fn foreign(&self, query: ForeignRuns) -> Answer<'_, Vec<RunRecord>> {
        self.inner.foreign(query)
    }
    fn put_definition(&self, definition: DefinitionRecord) -> Answer<'_, ()> {
        self.inner.put_definition(definition)
    }
    fn definitions(&self) -> Answer<'_, Vec<DefinitionRecord>> {
        self.inner.definitions()
    }
    fn waits(&self, filter: WaitFilter) -> Answer<'_, Vec<ListedWait>> {
        self.inner.waits(filter)
    }
    fn held(&self, worker: &WorkerId) -> Answer<'_, Vec<(RunId, Epoch)>> {
        self.inner.held(worker)
    }
    fn unread_held(&self, worker: &WorkerId) -> Answer<'_, Vec<(RunId, u64)>> {
        self.inner.unread_held(worker)
    }
    fn workers(&self) -> Answer<'_, Vec<WorkerRecord>> {
        self.inner.workers()
    }
    fn retire(&self, worker: &WorkerId) -> Answer<'_, ()> {
        self.inner.retire(worker)
    }
    fn unaware_owners(&self, run: &RunId) -> Answer<'_, Vec<WorkerId>> {
        self.inner.unaware_owners(run)
    }
    fn load(&self, run: &RunId, from: Position) -> Answer<'_, Vec<StoredFrame>> {
        self.inner.load(run, from)
    }
    fn last_frame(&self, run: &RunId) -> Answer<'_, Option<StoredFrame>> {
        self.inner.last_frame(run)
    }
    fn run(&self, run: &RunId) -> Answer<'_, Option<RunRecord>> {
        self.inner.run(run)
    }
    fn runs(&self, filter: RunFilter) -> Answer<'_, Vec<RunRecord>> {
        self.inner.runs(filter)
    }
    fn run_rows(&self, filter: RunFilter) -> Answer<'_, Vec<RunRow>> {
        self.inner.run_rows(filter)
    }
    fn damage(&self) -> Answer<'_, Vec<String>> {
        self.inner.damage()
    }
    fn count(&self, filter: RunFilter) -> Answer<'_, u64> {
        self.inner.count(filter)
    }
    fn claim(&self, request: ClaimRequest) -> Answer<'_, Vec<Lease>> {
        self.inner.claim(request)
    }
    fn renew(&self, worker: &WorkerId, lease: Duration, noticed: Vec<LostRun>) -> Answer<'_, Vec<LostRun>> {
        self.inner.renew(worker, lease, noticed)
    }
    fn release(&self, worker: &WorkerId, run: &RunId, epoch: Epoch, wake_at: Timestamp) -> Answer<'_, ()> {
        self.inner.release(worker, run, epoch, wake_at)
    }
    fn hasten(&self, now: Timestamp, beyond: Timestamp) -> Answer<'_, usize> {
        self.inner.hasten(now, beyond)
    }
    fn next_wake(&self) -> Answer<'_, Option<Timestamp>> {
        self.inner.next_wake()
    }
    fn entry(&self, run: &RunId, key: &IdempotencyKey) -> Answer<'_, Option<LedgerEntry>> {
        self.inner.entry(run, key)
    }
    fn reserve(&self, wanted: Reservation, replaces: Option<Reservation>) -> Answer<'_, Reservation> {
        self.inner.reserve(wanted, replaces)
    }
    fn reservation(&self, business_key: &str) -> Answer<'_, Option<Reservation>> {
        self.inner.reservation(business_key)
    }
    fn ended(&self, query: EndedRuns) -> Answer<'_, Vec<(u64, RunRecord)>> {
        self.inner.ended(query)
    }
    fn purge(&self, run: &RunId, created_at: Option<jiff::Timestamp>) -> Answer<'_, Purged> {
        self.inner.purge(run, created_at)
    }
    fn entries(&self, run: &RunId) -> Answer<'_, Vec<LedgerEntry>> {
        self.inner.entries(run)
    }
    fn send(&self, run: &RunId, message: Message) -> Answer<'_, Sent> {
        self.inner.send(run, message)
    }
    fn inbox(&self, run: &RunId, after: u64) -> Answer<'_, Vec<Message>> {
        self.inner.inbox(run, after)
    }
    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> Answer<'_, ()> {
        self.inner.put_blob(run, hash, bytes)
    }
    fn blob(&self, run: &RunId, hash: &str) -> Answer<'_, Option<Vec<u8>>> {
        self.inner.blob(run, hash)
    }
    fn write_streams(&self, writes: Vec<StreamWrite>) -> Answer<'_, Vec<Option<Vec<StreamItem>>>> {
        self.inner.write_streams(writes)
    }

    fn open_streams(&self, run: &RunId) -> Answer<'_, Vec<CommandId>> {
        self.inner.open_streams(run)
    }
    fn stream(&self, run: &RunId, stream: &str, after: u64, limit: usize) -> Answer<'_, Vec<StreamItem>> {
        self.inner.stream(run, stream, after, limit)
    }
    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> Pin<Box<dyn Future<Output = Result<(), AppendError>> + Send + '_>> {
        self.inner.put_effect(effect, epoch, values)
    }
    fn effects(&self, run: &RunId) -> Answer<'_, Vec<StoredEffect>> {
        self.inner.effects(run)
    }
    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> Answer<'_, ()> {
        self.inner.save_snapshot(run, snapshot)
    }
    fn snapshot(&self, run: &RunId) -> Answer<'_, Option<Snapshot>> {
        self.inner.snapshot(run)
    }
    fn put_schedule(&self, schedule: ScheduleRecord, replaces: u64) -> Answer<'_, bool> {
        self.inner.put_schedule(schedule, replaces)
    }
    fn schedules(&self, after: Option<&str>, limit: usize) -> Answer<'_, Vec<ScheduleRecord>> {
        self.inner.schedules(after, limit)
    }
    fn schedule(&self, name: &str) -> Answer<'_, Option<ScheduleRecord>> {
        self.inner.schedule(name)
    }
    fn due_schedules(&self, query: DueSchedules) -> Answer<'_, Vec<ScheduleRecord>> {
        self.inner.due_schedules(query)
    }
    fn remove_schedule(&self, name: &str) -> Answer<'_, bool> {
        self.inner.remove_schedule(name)
    }
    fn delete_snapshots(&self) -> Answer<'_, ()> {
        self.inner.delete_snapshots()
    }
    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
