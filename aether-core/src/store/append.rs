//! What is written: appends to a journal, and outcomes that are stored before they are appended.
//!
//! Promise: an append says all that its transaction writes; nothing else is written with it.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;

use crate::journal::frame::Frame;
use crate::store::ack::Ack;
use crate::store::error::{AppendError, StoreError};
use crate::store::ledger::{Acquire, LedgerStatus, LedgerUpdate};
use crate::store::records::CodeChange;
use crate::store::renewal::Renewal;
use crate::store::streams::StreamEnd;
use crate::store::waits::WaitChange;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Epoch, IdempotencyKey, Position, RunId};

/// A new status of a run, written in the same transaction as an append.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusChange {
    /// The new status.
    pub status: Status,
    /// When the run becomes due. `None`: with `Waiting`, only when a message or a notification arrives; with `Running`,
    /// at once, so that it is claimed if its worker dies. Ignored for a terminal status.
    pub wake_at: Option<Timestamp>,
    /// Whether the same write releases the lease. A terminal status always does.
    pub release: bool,
    /// Number of the newest inbox message the worker has seen. With a status of `Waiting`, the run stays due if the inbox
    /// holds an unread message with a higher number: it arrived after the worker looked for the last time. Its `wake_at` is
    /// then the time of the append or of such a message, whichever is earlier: appends never go back in time where the
    /// clock was set back, and by the time of the append alone the run would sleep until the clock has come that far again.
    pub seen: u64,
    /// The parent that waits for this run: it is made due, also when it is just being suspended, soon after this
    /// change is durable, and also after a crash. A run that is notified while a worker holds it may be woken once more than needed.
    pub notify: Option<RunId>,
}

/// Topics of the messages that request the end of a run.
pub const END_REQUESTS: [&str; 2] = ["cancel", "terminate"];

/// A unit of work on a store's own database: the body of a transaction step.
///
/// A store that supports it ([`Store::transactions`](crate::store::api::Store::transactions)) does this for an append that
/// carries one:
///
/// 1. It checks epoch, position and status as for every append. If they do not fit, the body is not called.
/// 2. It calls [`Work::call`] inside a transaction of its own database.
/// 3. If the call returned `true`, it appends [`Work::frame`] in the same transaction and commits.
/// 4. If the call returned `false`, or the store refuses what the body did, it rolls the body's changes back and
///    appends [`Work::frame`] (the same number of events) without them.
///
/// Where another transaction was in the way, or the server went away, so that nothing of a call is kept, a store may begin
/// again: it then calls once more.
pub trait Work: Send + Debug {
    /// The idempotency key of the attempt.
    fn key(&self) -> &IdempotencyKey;

    /// How long the body may take; `None` for no limit.
    fn timeout(&self) -> Option<Duration>;

    /// Calls the body and catches its panic. Returns whether the store should commit the body's changes.
    fn call(&mut self) -> bool;

    /// The events to append after [`Work::call`]. `undone` says why the store rolled the body back although the call
    /// returned `true`. A store may ask twice; the frame returned last is the one it must append.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the events cannot be written as JSON.
    fn frame(&mut self, undone: Option<Rollback>) -> Result<Frame, StoreError>;

    /// Whether nobody waits for the outcome any more: the run is being cancelled, or has let go of the call. A store that
    /// would call the body again, because others were in its way or it found no room, appends the frame of
    /// [`Rollback::CalledOff`] then: what the run has queued behind it waits no longer.
    fn is_called_off(&self) -> bool {
        false
    }
}

/// Why a store rolled back a [`Work`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rollback {
    /// It did what a transaction step must not do; the text says what.
    Refused(String),
    /// It took longer than [`Work::timeout`].
    TimedOut,
    /// It could not be carried out until nobody waited for it any more; see [`Work::is_called_off`].
    CalledOff,
}

/// One atomic append: events, and the changes of ledger, status and inbox that belong to them.
#[derive(Debug)]
pub struct Append {
    /// The run to append to.
    pub run: RunId,
    /// Epoch of the worker's lease. The append is refused unless the run still has it.
    pub epoch: Epoch,
    /// Position of the frame's first event. The append is refused unless it is the run's next position.
    pub expected: Position,
    /// Time of the append by the worker's clock.
    pub at: Timestamp,
    /// The events; may be empty. With a `work`, only their number counts: the work supplies the events.
    pub frame: Frame,
    /// A unit of work on the store's own database, to be executed in the transaction of this append.
    pub work: Option<Box<dyn Work>>,
    /// A ledger row to acquire.
    pub acquire: Option<Acquire>,
    /// Ledger rows to change.
    pub ledger: Vec<LedgerUpdate>,
    /// The run's new status; `None` leaves it unchanged.
    pub status: Option<StatusChange>,
    /// Numbers of the inbox messages that this append consumes. Unknown numbers are ignored.
    pub consumed: Vec<u64>,
    /// Changes of the list of open waits, in order; also made where `acquire` finds its key taken.
    pub waits: Vec<WaitChange>,
    /// What changes about the run's code; `None` leaves it unchanged.
    pub code: Option<CodeChange>,
    /// The append is refused if the inbox holds an unread message of a topic in [`END_REQUESTS`]: a request to end the run
    /// that was acknowledged, and that its worker has not seen or not obeyed.
    pub unless_asked_to_end: bool,
    /// The frame begins the next generation of the run: what belongs to the one before goes in the same write.
    pub renews: Option<Renewal>,
    /// Commands that have ended, and what becomes of what they sent to streams; of several about one command the last
    /// counts.
    pub streams: Vec<StreamEnd>,
    /// Reports the result. The store must answer it.
    pub ack: Ack,
}

impl Append {
    /// Why it is refused, where the creation of its run came to nothing on whose early word the run was begun: a run of that id
    /// is somebody else's. A store that tells early asks before it looks at anything else; see
    /// [`Store::create_early`](crate::store::Store::create_early).
    pub fn unborn(&self) -> Option<AppendError> {
        self.ack.is_void().then(|| AppendError::unborn(self.run.clone(), self.epoch))
    }
}

/// An outcome that is stored before it is appended to the journal, so that a crash between the two writes does not
/// lose it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEffect {
    /// The run that made the call.
    pub run: RunId,
    /// Key of the attempt. An attempt without a ledger row has one too, made of run, command and attempt.
    pub key: IdempotencyKey,
    /// The events that are about to be appended.
    pub frame: Frame,
    /// The status that the ledger row is about to get; `None` where there is no row.
    pub status: Option<LedgerStatus>,
}
