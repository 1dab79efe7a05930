//! What a store must do, the values that it takes and returns, reading whole events, and the reference store.
//!
//! Promise: a store author needs this room and the conformance suite, and nothing above. Imports `journal` and below.

pub(crate) mod ack;
pub(crate) mod api;
pub(crate) mod append;
pub(crate) mod birth;
pub(crate) mod codes;
pub(crate) mod encoding;
pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod integrity;
pub(crate) mod intent;
pub mod ledger;
mod matching;
pub mod memory;
pub(crate) mod open_waits;
pub(crate) mod pages;
pub(crate) mod purge;
pub mod queueing;
pub(crate) mod queues;
pub mod read;
pub(crate) mod recorded_calls;
pub(crate) mod records;
pub(crate) mod renewal;
pub(crate) mod reserve;
pub(crate) mod run_head;
pub(crate) mod schedules;
pub(crate) mod step_limit_rows;
pub(crate) mod step_limits;
pub mod streams;
pub(crate) mod waits;
pub(crate) mod workers;

pub use ack::{Ack, AppendReply, DurableWatermark, Receipt};
pub use api::{Durability, Store, StoreClock};
pub use append::{Append, END_REQUESTS, Rollback, StatusChange, StoredEffect, Work};
pub use birth::{Birth, BirthNotice};
pub use codes::{DefinitionRecord, ForeignRuns, Recode};
pub use error::{AppendError, StoreError};
pub use filter::{Cursor, CursorError, RunFilter};
pub use integrity::{IntegrityProblem, IntegrityReport, check_integrity};
pub use intent::{DurableIntent, LedgerAnswer};
pub use open_waits::waits_in_journal;
pub use purge::{EndedRuns, Purged};
pub use queues::{DueStarts, KeyedStart, Limit, LimitKind, QueuePosition, QueueState};
pub use records::{
    ClaimRequest, CodeChange, Created, DamagedRun, Decision, Lease, Message, NewRun, RunRecord, RunRow, Sent,
    Snapshot, Unread,
};
pub use renewal::Renewal;
pub use reserve::{Holder, holder};
pub use schedules::{
    CatchUp, DueSchedules, Overlap, ScheduleRecord, ScheduleSpec, Tick, TickOutcome, run_of_tick, tick_of_run,
};
pub use step_limits::{Rate, StepLimit, StepLimitUse};
pub use streams::{StreamEnd, StreamItem, StreamKind, StreamWrite};
pub use waits::{ListedWait, OpenWait, WaitChange, WaitFilter, WaitPlace};
pub use workers::{KnownWorker, LostRun, Serving, SilentWorker, WorkerRecord};
