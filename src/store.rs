//! Journals, the ledger, and the trait that every store implements: for authors of stores, and for tools that read
//! histories.

pub use aether_core::journal::event;
pub use aether_core::store::memory::MemoryStore;
pub use aether_core::store::*;

/// Frames of a journal, their hash chain, and references to large values.
pub mod journal {
    pub use aether_core::journal::{
        BlobRef, CHAIN_START, ChainHash, Chained, Frame, JournalError, LargeValue, StoredFrame, chain,
        read_verified,
    };
}
