//! Everybody outside of the run: people who decide and answer, systems that send signals and report outcomes.
//!
//! Promise: they act through the engine's own interface, in virtual time. It imports `dispatch` and what stands below it.

mod actor;
mod outside;
mod persist;
pub(crate) mod spawn;
