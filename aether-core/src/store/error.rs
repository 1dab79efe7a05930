//! Why a store did not do what it was asked to do.
//!
//! Promise: an error says which store, which run and, where it can be told, whether another try may help.

use std::fmt::Debug;

use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Epoch, Position, RunId};

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be opened.
    #[error("cannot open store {store}: {reason}")]
    Open {
        /// Which store.
        store: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The store was written by a newer build.
    #[error(
        "store {store} has schema version {found}, this build knows up to {supported}: update the program"
    )]
    NewerSchema {
        /// Which store.
        store: String,
        /// Version found.
        found: u32,
        /// Newest version this build can read.
        supported: u32,
    },
    /// The store refuses writes.
    #[error("store {store} is read-only: {reason}")]
    ReadOnly {
        /// Which store.
        store: String,
        /// What the driver said.
        reason: String,
    },
    /// There is no room left.
    #[error("store {store} is full: {reason}")]
    Full {
        /// Which store.
        store: String,
        /// What the driver said.
        reason: String,
    },
    /// Another process holds the store for too long.
    #[error("store {store} is locked by another process: {reason}")]
    Locked {
        /// Which store.
        store: String,
        /// What the driver said.
        reason: String,
    },
    /// The store's content is damaged.
    #[error("store {store} is damaged: {reason}")]
    Corrupt {
        /// Which store.
        store: String,
        /// What is damaged.
        reason: String,
    },
    /// The store is gone or was closed.
    #[error("store {store} is not available: {reason}")]
    Unavailable {
        /// Which store.
        store: String,
        /// Why.
        reason: String,
    },
    /// The store was handed a unit of work, and has nothing to run it on.
    #[error("store {store} cannot run transaction steps: use SQLite")]
    NoTransactions {
        /// Which store.
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
        /// Which store.
        store: String,
        /// What it did.
        reason: String,
    },
    /// No such run.
    #[error("there is no run `{run}` in this store")]
    UnknownRun {
        /// The id that was asked for.
        run: RunId,
    },
}

impl StoreError {
    /// Whether the same request may succeed later without anybody doing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Unavailable { .. })
    }
}

/// Why an append was refused or lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Another worker owns the run.
    #[error("run `{run}` was taken over: epoch {held} is stale, the store has {found}")]
    StaleEpoch {
        /// The run.
        run: RunId,
        /// Epoch of the refused append.
        held: Epoch,
        /// Epoch in the store.
        found: Epoch,
    },
    /// The append does not follow the last one.
    #[error("append to run `{run}` at position {expected}, but the next position is {found}")]
    WrongPosition {
        /// The run.
        run: RunId,
        /// Position of the refused append.
        expected: Position,
        /// Next position in the store.
        found: Position,
    },
    /// The run is over.
    #[error("run `{run}` is {status}; nothing can be appended to it")]
    RunEnded {
        /// The run.
        run: RunId,
        /// Its terminal status.
        status: Status,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
