//! The core of Aether: identity, journal, replay, ledger, contracts, the effect gate, the runner and the engine.
//!
//! Promise: no clock, no randomness and no network in here; they come in through a `World`. Positions, statuses and
//! views are folds over one run's journal.

pub mod contract;
pub mod event;
pub mod failure;
pub mod id;
pub mod journal;
pub mod ledger;
pub mod memory;
pub mod outcome;
pub mod payload;
pub mod store;
