//! Simulated runs: a workflow on the real engine, with stubs for bodies, a clock that skips, and draws from a seed.
//!
//! Promise: engine, journal, ledger and replay are the real ones; only the world is not. A simulation is the same
//! every time, nothing real runs unasked, and waiting takes no time.
//!
//! From the top down: `builder` is what a test writes; `sweep` runs many simulations and `processes` one; `people` and
//! `dispatch` act and answer in it, as `script` and the other settings plan; `schedule` says what comes when; `report` is
//! what comes out.

pub(crate) mod builder;
mod dispatch;
mod live;
mod people;
pub(crate) mod processes;
pub(crate) mod report;
mod schedule;
mod scheduler;
mod script;
mod settings;
mod sweep;
mod tape;
pub(crate) mod world;

pub use builder::schedules::EverySchedule;
pub use builder::sim::Sim;
pub use builder::when::When;
pub use live::Live;
pub use report::call::CallRecord;
pub use report::divergence::Comparison;
pub use report::error::SimError;
pub use report::running::Running;
pub use report::sim_report::SimReport;
pub use report::streams::SimStream;
pub use script::conversation::{Reply, call_named, call_tool, say, say_in_pieces};
pub use script::http::{Delayed, HttpAnswer, HttpCall, delayed};
pub use script::model::ModelAnswer;
pub use sweep::crashes::CrashReport;
pub use sweep::faults::FaultReport;
pub use sweep::orders::OrderReport;
pub use sweep::schedules::ScheduleReport;
pub use world::SimEnvironment;
