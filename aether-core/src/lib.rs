//! The core of Aether: identity, journal, replay, ledger, contracts, the effect gate, the runner and the engine.
//!
//! Promise: no clock, no randomness and no network in here; they come in through an
//! [`Environment`](environment::Environment). Positions, statuses and views are folds over one run's journal.

pub mod codec;
pub mod definition;
pub mod engine;
pub mod inbox;
pub mod journal;
mod perform;
pub mod policy;
pub mod private;
pub mod recording;
pub mod run;
#[cfg(aether_dst)]
#[path = "sched/simulated.rs"]
pub mod sched;
#[cfg(not(aether_dst))]
mod sched;
pub mod step;
pub mod store;
pub mod stream;
pub mod view;
pub mod vocabulary;
pub mod workflow;

pub use vocabulary::environment;
pub use vocabulary::{
    budget, clock_change, contract, deps, failure, id, labels, limits, measures, outcome, payload, queue,
    trace, waiting,
};
