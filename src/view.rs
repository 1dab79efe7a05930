//! Views of runs, folded from their journals: statuses, results, transitions and traces. For consoles and reports.

pub use aether_core::contract::{Constraints, Contract, IllegalTransition, Status, Trigger};
pub use aether_core::view::{
    Action, Audit, CALLBACK, CLOCK, ENGINE, EffectRecord, Ending, EventTime, Execution, HISTORY_CAP,
    HistoryUse, LastFailure, Lifecycle, PeopleStep, PeopleView, Purpose, Request, Retrying, RunView,
    StepPage, StepResult, StepView, TimedEvent, Trace, TraceEntry, Transition, WaitRef,
};
