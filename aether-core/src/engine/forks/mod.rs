//! Forks: a run that begins with the journal of another one up to a cut, and goes on live from there.
//!
//! Promise: a plan executes nothing; a fork starts only when something was decided about every call behind the cut that
//! may have changed the world; it is there whole or not at all; its origin is not changed.

mod answer;
mod bulk;
mod copy;
mod cut;
mod error;
mod plan;
mod request;
mod start;

pub use bulk::{ForkReport, PlannedFork};
pub use error::ForkError;
pub use plan::{ForkPlan, OpenOrigin};
pub use request::ForkRun;
