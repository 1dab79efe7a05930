//! Large values: how journals refer to them, and how they are read back.

pub use aether_core::journal::{BlobRef, LargeValue};
pub use aether_core::store::StoredEffect;
pub use aether_core::store::read::{complete, events, fill};
