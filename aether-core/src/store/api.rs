//! What a store must do. One small trait, and the values that cross it.
//!
//! Promise asked of every implementation:
//! - Appends of one run take effect in the order in which [`Store::append`] was called.
//! - An append takes effect whole or not at all, with its ledger, status and inbox changes.
//! - An append is refused unless its epoch is the run's and its position the next one, checked by the write itself.
//! - [`Ack::durable`] is called only when the append would survive what [`Store::durability`] says.
//! - A refused append leaves the other appends of its batch alone.
//! - What a [`Work`] did to the database is kept exactly if the append that carries it takes effect.
//! - After a terminal status every append is refused.

use crate::store::ack::Ack;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::journal::frame::{Frame, StoredFrame};
use crate::journal::large_values::LargeValue;
use crate::store::error::StoreError;
use crate::store::ledger::{Acquire, LedgerEntry, LedgerStatus, LedgerUpdate};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use crate::vocabulary::payload::{Digest, Payload};

use crate::store::purge::{EndedRuns, Purged};

/// What an acknowledged append survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: it lives in this process's memory.
    Volatile,
    /// A crash of the process.
    ProcessCrash,
    /// Loss of power.
    PowerLoss,
}

/// A status that is written with an append.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusChange {
    /// The new status.
    pub status: Status,
    /// When the run is next to be claimed; `None` for never by itself. Ignored for a terminal status.
    pub wake_at: Option<Timestamp>,
    /// Whether the worker gives up its lease in the same write. A terminal status always does.
    pub release: bool,
    /// Number of the newest inbox message the worker has seen. With a status of `Waiting`, the run stays due (its
    /// `wake_at` is the time of the append) while the inbox holds a message with a higher number, so that no message
    /// is missed between a worker's last look and its suspension.
    pub seen: u64,
    /// A run that waits for this one: the same write makes it due, also when it is just being suspended. A run that is
    /// notified while a worker holds it may be woken once more than needed.
    pub notify: Option<RunId>,
}

/// A unit of work on a store's own database: the body of a transaction step.
///
/// A store that says [`Store::runs_transactions`] first admits the append, then calls [`Work::call`] inside a database
/// transaction of its own, then appends [`Work::frame`] in that transaction and commits. Where the body failed, or the
/// store must undo it, what it did is rolled back, and the frame (of the same number of events) is appended alone.
pub trait Work: Send + Debug {
    /// The attempt's stable name.
    fn key(&self) -> &IdempotencyKey;

    /// How long the body may take.
    fn timeout(&self) -> Option<Duration>;

    /// Calls the body, once. Catches its panic. Says whether what it did is to be kept.
    fn call(&mut self) -> bool;

    /// The events to append after [`Work::call`]; `undone` says why the store rolled the work back of its own accord.
    /// The newest answer counts, where a store asks twice.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the events cannot be written as JSON.
    fn frame(&mut self, undone: Option<Rollback>) -> Result<Frame, StoreError>;
}

/// Why a store rolled a [`Work`] back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rollback {
    /// It did what a transaction step must not do.
    Refused(String),
    /// It took longer than its time.
    TimedOut,
}

/// One atomic append.
#[derive(Debug)]
pub struct Append {
    /// The run.
    pub run: RunId,
    /// Epoch of the worker's lease.
    pub epoch: Epoch,
    /// Position of the frame's first event.
    pub expected: Position,
    /// Time of the append by the worker's clock.
    pub at: Timestamp,
    /// The events. With a `work`, only their number counts: the work gives the events.
    pub frame: Frame,
    /// A unit of work on the store's own database, to be done in the transaction of this append.
    pub work: Option<Box<dyn Work>>,
    /// A ledger row to acquire.
    pub acquire: Option<Acquire>,
    /// Ledger rows to change.
    pub ledger: Vec<LedgerUpdate>,
    /// A status to write.
    pub status: Option<StatusChange>,
    /// Inbox messages that this append takes in.
    pub consumed: Vec<u64>,
    /// Must be answered.
    pub ack: Ack,
}

/// A run to be created, owned from the start by the worker that creates it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow's definition.
    pub version: u32,
    /// Digest of its input.
    pub digest: Digest,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// Its first frame, at position 0.
    pub frame: Frame,
    /// When.
    pub at: Timestamp,
    /// The worker that will advance it at epoch 1; `None` leaves it to be claimed.
    pub owner: Option<WorkerId>,
    /// Until when the worker holds it.
    pub lease_until: Timestamp,
}

/// What came of [`Store::create`].
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The run is new and durable; the owner holds epoch 1.
    New,
    /// A run of that id exists. Nothing was written.
    Existing(Box<RunRecord>),
}

/// A run as the store lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its id.
    pub id: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow's definition when it was created.
    pub version: u32,
    /// Where it stands.
    pub status: Status,
    /// Digest of its input.
    pub digest: Digest,
    /// The run that started it.
    pub parent: Option<RunId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its status or journal last changed.
    pub updated_at: Timestamp,
    /// The next position: the number of events in its journal.
    pub next: Position,
    /// Rises at every claim.
    pub epoch: Epoch,
    /// The worker that holds it.
    pub owner: Option<WorkerId>,
    /// Until when.
    pub lease_until: Option<Timestamp>,
    /// When it is next to be claimed.
    pub wake_at: Option<Timestamp>,
}

/// A request for runs that nobody advances.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// The time by its clock.
    pub now: Timestamp,
    /// Until when it will hold what it gets.
    pub lease_until: Timestamp,
    /// At most so many.
    pub limit: usize,
    /// Only runs of these workflows.
    pub workflows: Vec<String>,
    /// Only this run, whether or not it is due.
    pub only: Option<RunId>,
}

/// A time-limited right to advance a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// The run as it stood when it was claimed, with the new epoch.
    pub run: RunRecord,
    /// Until when.
    pub until: Timestamp,
}

/// A message to a run: a signal, an operator's decision, a request to cancel.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its number in the store; 0 until it is sent.
    pub seq: u64,
    /// Its id: a second message of the same id to the same run is dropped.
    pub id: String,
    /// What it is about, for example `signal:paid` or `cancel`.
    pub topic: String,
    /// What it holds.
    pub payload: Payload,
    /// When it was sent.
    pub at: Timestamp,
}

/// What came of [`Store::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the inbox, durably.
    Delivered,
    /// A message of that id was there before.
    Duplicate,
    /// The run is over.
    RunEnded(Status),
}

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Only runs of this status.
    pub status: Option<Status>,
    /// Only runs of this workflow.
    pub workflow: Option<String>,
    /// At most so many, newest first; 0 for all.
    pub limit: usize,
}

/// A saved state of a fold: a cache, never the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Number of the first event that is not in it.
    pub position: Position,
    /// The state as JSON.
    pub state: Payload,
}

/// Keeps journals, ledger, inboxes, leases, blobs and snapshots.
pub trait Store: Send + Sync + Debug + 'static {
    /// Which store this is, for messages: kind and place.
    fn describe(&self) -> String;

    /// What an acknowledged append survives.
    fn durability(&self) -> Durability;

    /// Announces a worker. A store that can tell that a worker's process has died may hand out its runs before their
    /// leases run out.
    fn register(&self, _worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Whether appends may carry a [`Work`].
    fn runs_transactions(&self) -> bool {
        false
    }

    /// Creates a run unless its id is taken. Durable when it answers. It is queued before this function returns, so
    /// that appends to the new run may follow at once.
    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>>;

    /// Queues an append without waiting; the answer comes through [`Append::ack`].
    fn append(&self, append: Append);

    /// The frames of a run from `from` on, in order.
    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>>;

    /// The newest frame of a run.
    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>>;

    /// One run.
    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>>;

    /// Runs, newest first.
    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>>;

    /// Takes runs that are due and that nobody holds (no owner, or a lease that ran out), raising their epoch.
    /// A run is due when it is not terminal and its `wake_at` is not after `now`.
    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>>;

    /// Extends every lease that `worker` holds.
    fn renew(&self, worker: &WorkerId, until: Timestamp) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Gives a run back without changing its journal, to be claimed again at `wake_at`.
    fn release(&self, run: &RunId, epoch: Epoch, wake_at: Timestamp)
    -> BoxFuture<'_, Result<(), StoreError>>;

    /// The earliest `wake_at` of any run that nobody holds.
    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>>;

    /// One ledger row.
    fn entry(&self, key: &IdempotencyKey) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>>;

    /// The ledger row that holds a business key, also when its run was purged.
    fn holder(&self, business_key: &str) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>>;

    /// The ledger rows of a run, in the order in which they were started.
    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>>;

    /// Puts a message into a run's inbox and makes the run due. Durable when it answers.
    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>>;

    /// Messages that no append has taken in, in the order in which they were sent.
    fn inbox(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<Message>, StoreError>>;

    /// How many messages [`Store::inbox`] would give. A store that can count them without reading them should.
    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<usize, StoreError>> {
        let inbox = self.inbox(run);
        Box::pin(async move { Ok(inbox.await?.len()) })
    }

    /// The runs that wait, that nobody holds and whose inbox is not empty, each with the number of its newest unread
    /// message. A store that can list them without reading every inbox should.
    fn unread_waiting(&self) -> BoxFuture<'_, Result<Vec<(RunRecord, u64)>, StoreError>> {
        Box::pin(async move {
            let waiting = RunFilter { status: Some(Status::Waiting), ..RunFilter::default() };
            let mut found = Vec::new();
            for record in self.runs(waiting).await? {
                if record.owner.is_none()
                    && let Some(newest) = self.inbox(&record.id).await?.last()
                {
                    found.push((record, newest.seq));
                }
            }
            Ok(found)
        })
    }

    /// Keeps how far the body of `command` has come, in place of what was kept before; a stale `epoch` changes
    /// nothing. It is forgotten when the run ends. A store that keeps none makes bodies begin anew.
    fn save_progress(
        &self,
        _run: &RunId,
        _epoch: Epoch,
        _command: &CommandId,
        _progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What was kept last by [`Store::save_progress`].
    fn progress(
        &self,
        _run: &RunId,
        _command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Keeps `bytes` under their SHA-256, given as 64 hexadecimal digits. Durable when it answers.
    fn put_blob(&self, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The bytes kept under `hash`.
    fn blob(&self, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>>;

    /// Keeps an outcome under its key, and the values it refers to as [`Store::put_blob`] does, all in one write.
    /// Durable when it answers. The first outcome under a key stays: a second one is dropped, its values are kept.
    fn put_effect(
        &self,
        effect: StoredEffect,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The outcomes kept for a run, in the order in which they came.
    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>>;

    /// Keeps the newest snapshot of a run.
    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The newest snapshot of a run.
    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>>;

    /// Runs that ended before a time, in the order in which they were created.
    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>>;

    /// Deletes a run that has ended: its journal, ledger rows, inbox and snapshot. Whether it may be deleted is checked
    /// by the write itself. Of a ledger row that holds a business key beginning with
    /// [`STORE_WIDE`](crate::store::ledger::STORE_WIDE), a tombstone without result is kept, so that the key stays taken.
    /// Durable when it answers.
    fn purge(&self, run: &RunId) -> BoxFuture<'_, Result<Purged, StoreError>>;

    /// Deletes every snapshot. Changes no outcome.
    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Waits until everything queued is durable and lets go of the store.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// An outcome on its way into the journal: what makes a crash between the two writes harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEffect {
    /// The run.
    pub run: RunId,
    /// Key of the attempt; attempts without a ledger row have one too: run, command and attempt.
    pub key: IdempotencyKey,
    /// The events that are about to be appended.
    pub frame: Frame,
    /// What the ledger row, if there is one, is about to become.
    pub status: Option<LedgerStatus>,
}
