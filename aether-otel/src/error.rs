//! Why spans could not be exported.
//!
//! Promise: each error says what happens with what is not exported.

use std::time::Duration;

use aether_core::store::StoreError;

/// Why spans could not be exported.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The exporter failed. What was not exported is kept, and tried again.
    #[error("spans could not be exported: {reason}; they are kept in the store and tried again")]
    Export {
        /// What it said.
        reason: String,
    },
    /// It took longer than was allowed.
    #[error("spans were not exported within {limit:?}; they are kept in the store and exported later")]
    TimedOut {
        /// How long it was allowed to take.
        limit: Duration,
    },
    /// The task that exports has ended.
    #[error("the task of the telemetry has ended: the runtime that it was started in is gone")]
    Ended,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}
