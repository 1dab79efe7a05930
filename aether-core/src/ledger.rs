//! The ledger: a uniquely keyed view of every tool invocation, kept in the transaction that appends its events.
//!
//! Promise: of any number of callers that acquire one key, at most one is told to execute, and it is told so only
//! after its started event is durable. A [`DurableIntent`] cannot be made in any other way.

use jiff::Timestamp;

use crate::id::{CommandId, Epoch, IdempotencyKey, InvocationId, RunId};
use crate::journal::Frame;
use crate::payload::{Digest, Payload};

/// How a business key begins that is unique in the whole store. No other one does: it begins with a run's id, which
/// holds no tab.
pub const STORE_WIDE: &str = "store\t";

/// What stands before the key of a tombstone: its run is gone, and a new run of that name may use the key itself.
pub const PURGED: &str = "purged:";

impl LedgerEntry {
    /// What is kept of this row when its run is purged; `None` unless it holds a store-wide business key.
    pub fn tombstone(self) -> Option<Self> {
        let held = self.business_key.as_ref().is_some_and(|key| key.starts_with(STORE_WIDE));
        let key = IdempotencyKey::from(format!("{PURGED}{}", self.key));
        held.then_some(Self { key, result: None, error: None, ..self })
    }
}

/// Where an invocation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LedgerStatus {
    /// The intent is durable; the body may be running.
    Started,
    /// The body came back with a value.
    Succeeded,
    /// The body definitely failed. The business key is free again.
    Failed,
    /// Nobody knows what happened.
    InDoubt,
    /// Succeeded, and the world was checked afterwards.
    Confirmed,
}

impl LedgerStatus {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
            Self::Confirmed => "confirmed",
        }
    }

    /// Reads the name written by [`LedgerStatus::as_str`].
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Started, Self::Succeeded, Self::Failed, Self::InDoubt, Self::Confirmed]
            .into_iter()
            .find(|status| status.as_str() == name)
    }
}

/// One row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry {
    /// The unique key.
    pub key: IdempotencyKey,
    /// The run.
    pub run: RunId,
    /// The command.
    pub command: CommandId,
    /// Name of the invocation inside its run.
    pub invocation: InvocationId,
    /// Name of the tool.
    pub tool: String,
    /// Digest of the arguments.
    pub digest: Digest,
    /// A second unique key, held while the invocation is started, succeeded, in doubt or confirmed.
    pub business_key: Option<String>,
    /// Where it stands.
    pub status: LedgerStatus,
    /// The value, where there is one.
    pub result: Option<Payload>,
    /// The step error, where there is one.
    pub error: Option<Payload>,
    /// Whether the outcome is final.
    pub committed: bool,
    /// Epoch of the worker that started it.
    pub epoch: Epoch,
    /// When it was started.
    pub started_at: Timestamp,
    /// When its outcome was recorded.
    pub finished_at: Option<Timestamp>,
}

/// A change of a ledger row that rides with an append.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerUpdate {
    /// Which row.
    pub key: IdempotencyKey,
    /// Its new status.
    pub status: LedgerStatus,
    /// The value, where there is one.
    pub result: Option<Payload>,
    /// The step error, where there is one.
    pub error: Option<Payload>,
    /// Whether the outcome is final.
    pub committed: bool,
}

/// The conditional insert that asks for the right to execute.
#[derive(Clone, Debug, PartialEq)]
pub struct Acquire {
    /// The row to insert, with status [`LedgerStatus::Started`].
    pub entry: LedgerEntry,
    /// What is appended in place of the append's own frame when `entry.key` or `entry.business_key` is taken. Holds
    /// as many events as that frame, so that positions do not depend on the answer.
    pub otherwise: Frame,
}

/// The store's answer to an [`Acquire`].
#[derive(Clone, Debug, PartialEq)]
pub enum Acquired {
    /// The append asked for nothing.
    NotAsked,
    /// The row was inserted and the append's frame is durable.
    Granted,
    /// The key is taken by this row; `otherwise` is durable instead.
    Taken(Box<LedgerEntry>),
}

/// The right to run one world-changing body once. Only a durable append of its started event creates it.
#[derive(Debug)]
pub struct DurableIntent {
    key: IdempotencyKey,
}

impl DurableIntent {
    /// The same intent once more, because its policy says to send it again; `receipt` shows that the decision is
    /// durable.
    pub(crate) fn reissued(key: IdempotencyKey, _receipt: &crate::store::Receipt) -> Self {
        Self { key }
    }

    /// The stable name that the outside world should see.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }
}

/// The ledger's answer to a worker that wants to run a world-changing body.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerAnswer {
    /// Run the body.
    Execute(DurableIntent),
    /// It was run; this is its row.
    Recorded(Box<LedgerEntry>),
    /// Somebody started it and its outcome is not known.
    InFlight(Box<LedgerEntry>),
    /// The business key belongs to another invocation.
    Refused(Box<LedgerEntry>),
}

impl LedgerAnswer {
    /// Reads a durable append's answer. `key` is the key that was asked for.
    pub(crate) fn read(key: &IdempotencyKey, acquired: Acquired) -> Option<Self> {
        Some(match acquired {
            Acquired::NotAsked => return None,
            Acquired::Granted => Self::Execute(DurableIntent { key: key.clone() }),
            Acquired::Taken(row) if row.key != *key => Self::Refused(row),
            Acquired::Taken(row) if row.committed => Self::Recorded(row),
            Acquired::Taken(row) => Self::InFlight(row),
        })
    }
}
