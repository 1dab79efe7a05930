//! Views: what people see of a run, folded from its journal.
//!
//! Promise: reading executes nothing; folding one journal twice gives equal views; a snapshot only shortens the fold.
//! Every transition of a run's and of an execution's status is kept with from, to, trigger, actor and time. Imports `run` and
//! below.

pub(crate) mod ending;
pub(crate) mod execution;
mod fold;
pub(crate) mod levels;
mod page;
pub mod pending;
pub(crate) mod people;
pub(crate) mod retrying;
pub(crate) mod run;
mod text;
mod track;
pub(crate) mod wait_ref;
pub(crate) mod window;

pub use ending::Ending;
pub use execution::{
    CALLBACK, CLOCK, ENGINE, EventTime, Execution, HISTORY_CAP, Lifecycle, Purpose, TimedEvent, Transition,
};
pub use levels::{Action, Audit, Request, StepResult, Trace, TraceEntry};
pub use people::{PeopleStep, PeopleView};
pub use retrying::Retrying;
pub use run::{EffectRecord, HistoryUse, LastFailure, RunView, StepView};
pub use wait_ref::WaitRef;
pub use window::StepPage;
