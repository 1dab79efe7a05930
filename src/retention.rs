//! How long ended runs are kept: for operators.

pub use aether_core::engine::{PurgeCandidate, PurgeDecision, PurgeReport, Retention};
