//! Resources that steps change, and verifiers that inspect them after a restart: for steps that declare `changes`.

pub use aether_core::policy::{Inspection, Verifier};
pub use aether_effects::resource::*;
