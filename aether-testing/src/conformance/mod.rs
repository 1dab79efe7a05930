//! What every store must do, as tests that any store author can run.
//!
//! Promise: a store that passes every rule can carry an engine. Each rule gets an empty store of its own and panics
//! with what it saw when the rule is broken.
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
//! The last group of rules looks at a store through one that fails: a call is not done, is done and answered with an
//! error, or a batch of appends is cut in two ([`StoreFault`](crate::StoreFault)). To see that an engine on your store keeps its
//! guarantees then, put a [`FaultyStore`](crate::FaultyStore) in front of it, run a workflow of your own once for each
//! fault, and end each run with a second engine on the bare store:
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
//! // Afterwards `faulty.possible()` has every fault that the run could have had.
//! # assert!(faulty.possible().is_empty());
//! ```
//!
//! A store that answers in memory, or in front of [`MemoryStore`](aether_core::store::memory::MemoryStore), can be tried on
//! virtual time with [`Sim::wrap_store`](crate::Sim::wrap_store), in
//! [`crash_at_every_boundary`](crate::Sim::crash_at_every_boundary) and
//! [`fail_at_every_call`](crate::Sim::fail_at_every_call).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken rule panics with what it saw")]

pub mod appends;
pub mod faults;
pub mod inbox;
pub mod kept;
mod kit;
pub mod leases;
pub mod ledger;
pub mod purge;
pub mod runs;
mod suite;

pub use suite::{Fixture, check};
