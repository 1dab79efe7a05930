//! The engine: starts runs, resumes the open ones, delivers results, and releases its runs when it shuts down.
//!
//! Promise: one run is advanced by one live owner at a time; a shutdown releases and does not cancel; a fault of one
//! run leaves the others alone.

// rustdoc lists the methods of `Engine` in the order of its files, so the files stand in the order of need.
mod builder;

mod unprovided;

mod client;

mod served_queues;

mod shared_clock;
mod start;

mod queued_start;

mod named_start;

mod started_as;
mod starting;

mod handle;

mod opening;
mod operate;
mod orphans;
mod pace;

mod drain;

mod health;

mod waits;
mod whole;

mod dead_letters;

mod limits;
mod step_limits;
mod why;

mod farewells;
mod fleet;

mod decide;

mod verify;

mod evidence;

mod admission;
mod adopt;
mod changes;

mod forks;

mod schedules;

mod purging;
mod retention;

mod inner;

mod addressed;
mod advance;
mod build_error;
mod children;
mod code;
mod create;
mod decide_error;
mod defaults;
mod drained;
mod heal;
mod hold;
mod in_use;
mod keeper;
mod keyed;
mod lease_watch;
mod let_go;
pub(crate) mod needs;
mod open_store;
mod prepare;
mod queue_options;
mod registry;
mod same_input;
mod steady_clock;
mod traceparent;
mod transactions;
mod vitals;
mod worker;

pub use adopt::known::AdoptionCounts;
pub use adopt::parked::{ParkedPage, ParkedRun};
pub use adopt::report::{CheckReport, RunCheck, RunVerdict};
pub use adopt::unfit::OnUnfit;
pub use build_error::{BuildError, ForeignStep, PrepareError};
pub use builder::EngineBuilder;
pub use changes::{ChangeAdvice, ChangePlace, ChangeReport, RunGroup, VersionUse};
pub use dead_letters::{DeadLetter, DeadLetterCause};
pub use decide_error::{DecideError, NamedWait};
pub use defaults::Defaults;
pub use drained::Drained;
pub use fleet::WorkerView;
pub use forks::{ForkError, ForkPlan, ForkReport, ForkRun, OpenOrigin, PlannedFork};
pub use handle::{AnyWorkflow, RunError, RunHandle};
pub use health::{Health, Probe};
pub use hold::{Hold, OpenWaitOf};
pub use inner::Engine;
pub use keyed::{KeyError, Singleton};
pub use limits::QueueLimits;
pub use named_start::StartNamed;
pub use needs::{EffectNeed, MissingNeed};
pub use open_store::Opening;
pub use retention::{PurgeCandidate, PurgeDecision, PurgeReport, Retention};
pub use schedules::{Backfill, NewSchedule, Schedule, ScheduleError};
pub use start::{StartError, StartRun};
pub use step_limits::StepLimits;
pub use traceparent::TraceparentError;
pub use verify::{Fit, Verified, VerifyError};
