//! One claim of one run: its position in the journal, commands against history, appends, faults, and its end.
//!
//! Promise: after the first fault nothing more is appended; nothing in here calls a body. Imports `inbox`, `step` and
//! below.

pub(crate) mod append;
pub(crate) mod awaited_children;
pub(crate) mod branches;
pub(crate) mod budgets;
pub(crate) mod came_back;
pub(crate) mod cancel;
pub(crate) mod changes;
pub(crate) mod claim;
mod contents;
pub(crate) mod end;
pub(crate) mod fault;
pub(crate) mod held;
pub(crate) mod insist;
pub(crate) mod leases;
pub(crate) mod log;
pub(crate) mod matcher;
pub(crate) mod next_generation;
pub(crate) mod program;
pub(crate) mod recovery;
pub(crate) mod renewal;
pub(crate) mod replayed_log;
pub(crate) mod reply_receiver;
pub(crate) mod requested;
pub(crate) mod shared;
pub(crate) mod taken;
pub(crate) mod undoers;
pub(crate) mod undoing;
pub(crate) mod unreadable;
mod unsaved;
pub(crate) mod version;
pub(crate) mod won;

pub use changes::{ValueChange, ValueChanges};
pub use end::RunEnd;
pub use fault::{CommandSummary, Divergence, Fault, StateName};
pub use next_generation::ContinueError;
pub use program::{ChildEnd, Completion, RegisteredWorkflow};
pub use shared::Observed;
pub use unreadable::Unreadable;
