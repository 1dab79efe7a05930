//! The statements of the seed documents, one test each, named after its row: `s046_…` is row 46.
//!
//! Rows are asserted through public API, on the memory store and on SQLite, with body calls counted.

mod approvals;
mod callbacks;
mod chain;
mod compensation;
mod confirmation;
mod contracts;
mod effect_store;
mod effects;
mod everything;
pub(crate) mod histories;
mod human;
mod keys;
pub(crate) mod kit;
mod ledger;
mod mail;
mod plans;
mod policy;
mod processes;
mod replay;
mod reports;
mod resources;
mod retention;
mod sandbox;
mod stores;
mod unknown;
mod views;
mod workers;
