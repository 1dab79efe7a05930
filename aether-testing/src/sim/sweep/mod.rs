//! Sweeps: one workflow in many simulations, which must all keep the same guarantees.
//!
//! Promise: a sweep that fails says how to see that one simulation again. It imports `processes` and what stands below it.

mod canonical;
mod contrary_log;
pub(crate) mod crashes;
mod digests;
pub(crate) mod double_run;
pub(crate) mod environment;
pub(crate) mod faults;
mod guarantees;
mod message_rules;
mod order_outcome;
pub(crate) mod orders;
mod quiet;
mod races;
mod schedule_failure;
mod schedule_rules;
pub(crate) mod schedules;
mod shrink;
