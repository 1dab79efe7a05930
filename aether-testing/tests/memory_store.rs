//! The reference store keeps every rule of the conformance suite.

use std::sync::Arc;

use aether_core::store::memory::MemoryStore;
use aether_testing::conformance::Fixture;

aether_testing::store_suite!(memory, async || Fixture::new(Arc::new(MemoryStore::new())));
