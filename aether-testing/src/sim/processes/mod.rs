//! The processes of a simulation: each runs an engine on what the last one left in the store.
//!
//! Promise: engine, journal, ledger and replay are the real ones. It imports `people` and what stands below it.

mod audit;
pub(crate) mod audit_streams;
pub(crate) mod doubts;
pub(crate) mod engine;
mod process;
pub(crate) mod simulate;
mod unanswered;
