//! The core of Aether: identity, journal, replay, ledger, contracts, the effect gate, the runner and the engine.
//!
//! Promise: no clock, no randomness and no network in here; they come in through a `World`. Positions, statuses and
//! views are folds over one run's journal.

pub mod approval;
pub mod branch;
mod business;
pub mod callback;
mod cancellation;
pub mod child;
mod closing;
mod commit;
pub mod confirm;
pub mod contract;
pub mod cx;
pub mod def;
pub mod deps;
pub mod effect_store;
mod ended;
pub mod engine;
pub mod event;
pub mod failure;
pub mod fault;
pub mod gate;
pub mod graph;
mod heartbeat;
pub mod host;
pub mod human;
pub mod id;
pub mod journal;
pub mod ledger;
pub mod limits;
pub mod memory;
mod obligations;
pub mod outcome;
pub mod payload;
pub mod pending;
mod perform;
mod plan;
pub mod policy;
pub mod private;
mod purge;
pub mod recording;
pub mod replay;
pub mod resources;
mod retry;
mod run;
mod silence;
pub mod step;
pub mod step_cx;
pub mod store;
pub mod tool;
mod transact;
mod turn;
pub mod unknown;
mod unwind;
pub mod view;
pub mod wait;
pub mod world;

pub use turn::RunEnd;
