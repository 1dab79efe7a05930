//! Why a store did not do what it was asked to do.
//!
//! Promise: an error names the store or the run, and says where possible whether another try may help.

use std::fmt::Debug;

use crate::vocabulary::codec::CodecError;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Epoch, Position, RunId};

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be opened.
    #[error("cannot open store {store}: {reason}")]
    Open {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// What went wrong, and what to do about it.
        reason: String,
    },
    /// The store was written by a newer build.
    #[error(
        "store {store} has schema version {found}, this build knows up to {supported}: update the program"
    )]
    NewerSchema {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// Schema version of the store.
        found: u32,
        /// Newest schema version that this build can read.
        supported: u32,
    },
    /// The store was written by an older build, and is not to be changed.
    #[error(
        "store {store} has schema version {found}, this build works on {supported}, and was asked not to change it: bring it to \
         this version when no older build works on it any more"
    )]
    OlderSchema {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// Schema version of the store.
        found: u32,
        /// The schema version of this build.
        supported: u32,
    },
    /// The store refuses writes.
    #[error("store {store} is read-only: {reason}")]
    ReadOnly {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// What the driver said.
        reason: String,
    },
    /// The medium has no room left.
    #[error("store {store} is full: {reason}")]
    Full {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// What the driver said.
        reason: String,
    },
    /// Another process has held the store's lock for too long.
    #[error("store {store} is locked by another process: {reason}")]
    Locked {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// What the driver said.
        reason: String,
    },
    /// The store's content is damaged.
    #[error("store {store} is damaged: {reason}")]
    Corrupt {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// What is damaged, and where.
        reason: String,
    },
    /// The store's file, or one of those that belong to it, was deleted or replaced while it was open. What is written from
    /// then on would be lost, or damage what others write, so that nothing is written.
    #[error("store {store} has lost its file: {reason}")]
    Lost {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// What happened to which file, and what to do about it.
        reason: String,
    },
    /// The store was closed in this process: it answers nothing any more.
    #[error("store {store} was closed")]
    Closed {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
    },
    /// The store cannot be reached.
    #[error("store {store} is not available: {reason}")]
    Unavailable {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// Why it cannot be reached.
        reason: String,
    },
    /// An append carried a unit of work, and the store has no database to run it on.
    #[error("store {store} cannot run transaction steps: use SQLite or Postgres")]
    NoTransactions {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
    },
    /// The store keeps no queues.
    #[error(
        "store {store} has no queues: use SQLite or one Postgres database, or start runs without `queue` and without keys"
    )]
    NoQueues {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
    },
    /// What was to be stored cannot be written as JSON.
    #[error("{what} cannot be written as JSON: {reason}")]
    Unencodable {
        /// What was to be stored, and of which run.
        what: String,
        /// What the encoder said.
        reason: String,
    },
    /// The store did something that the conformance suite forbids.
    #[error("store {store} does not keep its contract: {reason}")]
    ContractBroken {
        /// Kind and place of the store, as [`Store::describe`](crate::store::api::Store::describe) says it.
        store: String,
        /// What it did or failed to do.
        reason: String,
    },
    /// What is kept went through a payload codec, or was to go through it, and it could not.
    #[error("{what} cannot be read or written: {error}")]
    Codec {
        /// Which value, and of what.
        what: String,
        /// The run that it belongs to, if it belongs to one.
        run: Option<RunId>,
        /// Why, with the id of the key.
        error: CodecError,
    },
    /// There is no such run.
    #[error("there is no run `{run}` in this store")]
    UnknownRun {
        /// The id that was asked for.
        run: RunId,
    },
}

impl StoreError {
    /// A short name of what is wrong, for a metric's label.
    ///
    /// ```
    /// use aether_core::store::StoreError;
    /// let full = StoreError::Full { store: "sqlite a.db".into(), reason: "no space left".into() };
    /// assert_eq!(full.kind(), "full");
    /// ```
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::NewerSchema { .. } => "newer_schema",
            Self::OlderSchema { .. } => "older_schema",
            Self::ReadOnly { .. } => "read_only",
            Self::Full { .. } => "full",
            Self::Locked { .. } => "locked",
            Self::Corrupt { .. } => "corrupt",
            Self::Lost { .. } => "lost",
            Self::Closed { .. } => "closed",
            Self::Unavailable { .. } => "unavailable",
            Self::NoTransactions { .. } => "no_transactions",
            Self::NoQueues { .. } => "no_queues",
            Self::Unencodable { .. } => "unencodable",
            Self::ContractBroken { .. } => "contract_broken",
            Self::Codec { .. } => "codec",
            Self::UnknownRun { .. } => "unknown_run",
        }
    }

    /// Whether the same request may succeed later by itself, without an operator's help.
    ///
    /// ```
    /// use aether_core::store::StoreError;
    /// let locked = StoreError::Locked { store: "sqlite a.db".into(), reason: "busy".into() };
    /// assert!(locked.is_retryable());
    /// let full = StoreError::Full { store: "sqlite a.db".into(), reason: "no space left".into() };
    /// assert!(!full.is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Unavailable { .. })
    }
}

/// Why an append was refused or lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Another worker has claimed the run; this one must stop advancing it.
    #[error("run `{run}` was taken over: epoch {held} is stale, the store has {found}")]
    StaleEpoch {
        /// The run that was appended to.
        run: RunId,
        /// Epoch that the refused append carried.
        held: Epoch,
        /// Epoch of the run in the store.
        found: Epoch,
    },
    /// The run was asked to end while its worker was about to end it in another way. The next claim finds the request.
    #[error("run `{run}` was asked to end meanwhile")]
    AskedToEnd {
        /// The run that was appended to.
        run: RunId,
    },
    /// The append does not begin at the run's next position.
    #[error("append to run `{run}` at position {expected}, but the next position is {found}")]
    WrongPosition {
        /// The run that was appended to.
        run: RunId,
        /// Position at which the refused append begins.
        expected: Position,
        /// Next position of the run in the store.
        found: Position,
    },
    /// The run has ended.
    #[error("run `{run}` is {status}; nothing can be appended to it")]
    RunEnded {
        /// The run that was appended to.
        run: RunId,
        /// Its terminal status.
        status: Status,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AppendError {
    /// That of a run which was begun before its creation was durable, where that came to nothing: no claim stands behind it.
    pub(crate) fn unborn(run: RunId, held: Epoch) -> Self {
        Self::StaleEpoch { run, held, found: 0 }
    }
}
