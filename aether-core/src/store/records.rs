//! Runs, claims and messages as they cross the contract of a store.
//!
//! Promise: plain values.

use jiff::Timestamp;

use crate::journal::frame::{ChainHash, Frame};
use crate::store::filter::Cursor;
use crate::store::queues::{Limit, QueueState};
use crate::store::workers::SilentWorker;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CodeId, Epoch, Position, RunId, WorkerId};
use crate::vocabulary::labels::Labels;
use crate::vocabulary::payload::{Digest, Payload};
use crate::vocabulary::queue::{Serves, StartTerms};

/// A run to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Id of the run.
    pub id: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow's definition.
    pub version: u32,
    /// The code that records it.
    pub code: CodeId,
    /// Digest of its input.
    pub digest: Digest,
    /// The run that started it; `None` for a run that a program started.
    pub parent: Option<RunId>,
    /// Its labels.
    pub labels: Labels,
    /// The W3C trace context in which it was started, as in the header `traceparent`.
    pub traceparent: Option<String>,
    /// Its first frame, at position 0.
    pub frame: Frame,
    /// Time of creation by the worker's clock. The run is due from then on.
    pub at: Timestamp,
    /// The worker that advances it at epoch 1. `None`: the run is pending, at epoch 0, until a worker claims it.
    pub owner: Option<WorkerId>,
    /// The epoch at which the creator holds the parent. The run is created only if the parent is open and still has it.
    /// `None`: not checked.
    pub parent_epoch: Option<Epoch>,
    /// Its queue, and when it may begin.
    pub terms: StartTerms,
}

/// A run whose row cannot be read: somebody has changed it, or the medium has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRun {
    /// What the row has for the id of the run.
    pub id: String,
    /// What is wrong with the row.
    pub reason: String,
}

/// What the creation of a run rests on: a record that still has the revision in which it says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A keyed start.
    KeyedStart {
        /// Its name.
        name: String,
        /// Its revision.
        revision: u64,
    },
    /// A schedule.
    Schedule {
        /// Its name.
        name: String,
        /// Its revision.
        revision: u64,
    },
}

/// Result of [`Store::create`](crate::store::Store::create). Where nothing was written and there is no such run, its values
/// are deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The parent has ended, or another worker holds it. Nothing was written.
    ParentLost,
    /// The [`Decision`] does not stand any more. Nothing was written.
    DecisionGone,
    /// The run is new and durable; the owner, if there is one, holds epoch 1.
    New,
    /// The id is taken by this run. Nothing was written.
    Existing(Box<RunRecord>),
    /// As many runs as [`LimitKind::Open`](crate::store::queues::LimitKind::Open) allows are open. Nothing was written.
    OverLimit {
        /// The limit.
        limit: Limit,
        /// How many runs are open, as far as they were counted.
        open: u64,
    },
}

/// A run as the store lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Id of the run.
    pub id: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow's definition when its present generation began.
    pub version: u32,
    /// The code that records it: that of its creation, or the one that adopted it last; of a run that waits in a queue, the
    /// one that is to adopt it.
    pub code: CodeId,
    /// Whether it is parked: it does not fit the code that was to advance it, and waits for code that it fits. A run that
    /// has ended is not parked.
    pub parked: bool,
    /// Current status of the run.
    pub status: Status,
    /// Digest of its input.
    pub digest: Digest,
    /// The run that started it; `None` for a run that a program started.
    pub parent: Option<RunId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its status or journal last changed: the time of the newest append.
    pub updated_at: Timestamp,
    /// The next position: the number of events in the journals of all its generations.
    pub next: Position,
    /// Epoch of the newest claim. Every claim raises it by one.
    pub epoch: Epoch,
    /// The worker that holds the run, if there is one. It may be dead: see [`Store::workers`](crate::store::Store::workers).
    pub owner: Option<WorkerId>,
    /// When the run becomes due; `None` once it has ended, and while only a message can wake it.
    pub wake_at: Option<Timestamp>,
    /// The labels that it was created with.
    pub labels: Labels,
    /// The W3C trace context in which it was started.
    pub traceparent: Option<String>,
    /// Its place in the order in which the runs of the store were created. A list continues behind it with
    /// [`RunFilter::after`](crate::store::RunFilter::after).
    pub place: Cursor,
    /// Its queue, and when it could begin.
    pub terms: StartTerms,
    /// Where it stands in its queue.
    pub queue: QueueState,
}

/// A run's row as a check of the store reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Its place.
    pub place: Cursor,
    /// The id that stands in it, whatever that is.
    pub id: String,
    /// The run, or why the row cannot be read.
    pub run: Result<RunRecord, String>,
    /// Chain hash of the journal's last frame as the row has it; `None` where the store keeps it nowhere but in the journal.
    pub tip: Option<ChainHash>,
}

impl From<RunRecord> for RunRow {
    fn from(run: RunRecord) -> Self {
        Self { place: run.place, id: run.id.to_string(), run: Ok(run), tip: None }
    }
}

/// A change of what a store knows of a run's code, written in the transaction of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeChange {
    /// From now on this code records the run, which is not parked any more.
    Adopted(CodeId),
    /// The run is parked. Its code stays.
    Parked,
}

/// A worker's request for due runs that no other worker holds.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The worker that asks; owner of the leases it gets.
    pub worker: WorkerId,
    /// The time by its clock. Runs due later are not claimed.
    pub now: Timestamp,
    /// Workers whose leases it has seen expire. Their runs count as free.
    pub silent: Vec<SilentWorker>,
    /// The most runs to claim.
    pub limit: usize,
    /// Only runs that one of these records and that are not parked. Ignored with `adopt`.
    pub codes: Vec<CodeId>,
    /// Only this run, whether or not it is due. Leases and terminal statuses still hold.
    pub only: Option<RunId>,
    /// Where it is not empty, exactly these runs, whether or not they are due, whatever their code is, and also parked
    /// ones. Leases and terminal statuses still hold; `limit` and `only` are ignored.
    pub adopt: Vec<RunId>,
    /// Only runs that this allows, also those that are named and those of silent workers.
    pub serves: Serves,
    /// Of an odd number of places, whether runs outside of queues get the one that is left over. Who claims takes turns with
    /// it, so that one place at a time does not always go to a queue.
    pub others_first: bool,
    /// Of an odd number of places for runs of queues, whether those that have lapsed get the one that is left over, while
    /// queues have something. Who claims takes turns with it as well.
    pub lapsed_first: bool,
}

/// The right to advance a run, for as long as its worker renews. Appends carry its epoch, so that a worker that lost the
/// run is fenced.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// The run as it was when it was claimed, with the new owner and epoch.
    pub run: RunRecord,
    /// The silent worker that it was taken from; `None` for a run that no worker held.
    pub taken_from: Option<WorkerId>,
}

/// A message to a run: a signal, an operator's decision, a request to cancel.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its number, assigned by the store: it rises from message to message of a run. 0 until the message is sent.
    pub seq: u64,
    /// Its id. A second message with the same id to the same run is dropped, also after the first was consumed.
    pub id: String,
    /// What it is about, for example `signal:paid` or `cancel`.
    pub topic: String,
    /// Its content as JSON.
    pub payload: Payload,
    /// When it was sent, by the sender's clock.
    pub at: Timestamp,
}

/// How much a run's inbox holds that no append has consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// How many messages.
    pub messages: usize,
    /// Bytes of JSON in their payloads.
    pub bytes: usize,
}

impl Unread {
    /// What one message adds to an inbox.
    pub fn of(message: &Message) -> Self {
        Self { messages: 1, bytes: message.payload.as_str().len() }
    }
}

impl std::iter::Sum for Unread {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            messages: sum.messages.saturating_add(part.messages),
            bytes: sum.bytes.saturating_add(part.bytes),
        })
    }
}

/// Result of [`Store::send`](crate::store::Store::send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message is durably in the inbox.
    Delivered,
    /// The run got a message with that id before. Nothing was written.
    Duplicate,
    /// The run has ended with this status. Nothing was written.
    RunEnded(Status),
}

/// A saved state of a fold over a journal: a cache, never the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Position of the first event that the state does not include.
    pub position: Position,
    /// The state as JSON.
    pub state: Payload,
}
