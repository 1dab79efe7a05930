//! What a store must do, the values that it takes and returns, reading whole events, and the reference store.
//!
//! Promise: a store author needs this room and the conformance suite, and nothing above. Imports `journal` and below.

pub(crate) mod ack;
pub(crate) mod api;
pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod intent;
pub mod ledger;
mod matching;
pub mod memory;
pub(crate) mod purge;
pub mod read;
pub(crate) mod workers;

pub use ack::{Ack, AppendReply, DurableWatermark, Receipt};
pub use api::{
    Append, ClaimRequest, Created, Durability, END_REQUESTS, Lease, Message, NewRun, Rollback, RunRecord,
    Sent, Snapshot, StatusChange, Store, StoredEffect, Unread, Work,
};
pub use error::{AppendError, StoreError};
pub use filter::{Cursor, CursorError, RunFilter};
pub use intent::{DurableIntent, LedgerAnswer};
pub use purge::{EndedRuns, Purged};
pub use workers::{LostRun, SilentWorker, WorkerRecord};
