//! The engine: starts runs, recovers what was left, hands out results, and gives runs back when it shuts down.
//!
//! Promise: one run is advanced by one live owner at a time; a shutdown releases and does not cancel; a fault of one
//! run leaves the others alone.

mod advance;
mod builder;
mod children;
mod create;
mod decide;
mod handle;
mod heal;
mod inner;
mod operate;
mod retention;
mod start;
mod verify;
mod worker;

pub use builder::{BuildError, Defaults, EngineBuilder};
pub use decide::DecideError;
pub use handle::{AnyWorkflow, RunError, RunHandle};
pub use inner::Engine;
pub use retention::{PurgeCandidate, PurgeDecision, PurgeReport, Retention};
pub use start::{StartError, StartRun};
pub use verify::{Verified, VerifyError};
