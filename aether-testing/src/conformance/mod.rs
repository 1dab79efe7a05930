//! What every store must do, as tests that any store author can run.
//!
//! Promise: an engine can run on a store that keeps every rule. Each rule gets an empty store of its own and, when the
//! store breaks it, panics with what it saw.
//!
//! ```
//! use std::sync::Arc;
//! use aether_core::store::memory::MemoryStore;
//! use aether_testing::conformance::Fixture;
//!
//! aether_testing::store_suite!(memory, async || Fixture::new(Arc::new(MemoryStore::new())));
//! # fn main() {}
//! ```
//!
//! The `faults` rules put a failing store in front of yours: a call is not executed, or is executed and answered with an
//! error, or a batch of appends is cut in two ([`StoreFault`](crate::StoreFault)). To check that an engine on your store
//! keeps its guarantees under such faults, put a [`FaultyStore`](crate::FaultyStore) in front of it, run a workflow of
//! your own once for each fault, and finish each run with a second engine on the bare store:
//!
//! ```
//! # use std::sync::Arc;
//! # use aether_core::store::memory::MemoryStore;
//! # use aether_core::store::{Store, StoreError};
//! use aether_testing::{FaultyStore, StoreFault};
//!
//! # let my_store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let full = StoreError::Full { store: "mine".into(), reason: "no space left".into() };
//! let faulty = FaultyStore::new(my_store, Some(StoreFault::AnswerLost(3))).failing_with(full);
//! // `Engine::builder().store(Arc::new(faulty))`, run, drop; then `.store(my_store)` and the same run again.
//! // Afterwards `faulty.possible()` lists every fault that the run could have had.
//! # assert!(faulty.possible().is_empty());
//! ```
//!
//! A store that answers in memory, or in front of [`MemoryStore`](aether_core::store::memory::MemoryStore), can be tried on
//! virtual time with [`Sim::wrap_store`](crate::Sim::wrap_store), in
//! [`crash_at_every_boundary`](crate::Sim::crash_at_every_boundary) and
//! [`fail_at_every_call`](crate::Sim::fail_at_every_call).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken rule panics with what it saw")]

pub mod appends;
pub mod codes;
pub mod faults;
pub mod inbox;
pub mod kept;
mod kit;
pub mod leases;
pub mod ledger;
pub mod lists;
pub mod purge;
pub mod queues;
pub mod renewal;
pub mod reservations;
pub mod runs;
pub mod schedules;
pub mod streams;
mod suite;
pub mod turns;
pub mod waits;

pub use suite::{Checking, Fixture, Opening, boxed, check};
