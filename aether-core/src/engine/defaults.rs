//! What an engine is made with where its program says nothing else.
//!
//! Promise: a program that names a clock or a verifier of its own gets that one.

use std::sync::Arc;

use crate::policy::verifiers::Verifier;
use crate::vocabulary::environment::Environment;

/// What [`Engine::builder`](crate::engine::Engine::builder) starts with, before the program sets anything. A crate that
/// provides defaults submits them with `inventory::submit!`, as `aether-effects` does. Where several crates do, the last
/// one that was linked counts.
///
/// ```
/// # use aether_core::engine::Defaults;
/// # use aether_core::environment::Environment;
/// # use std::sync::Arc;
/// # fn submitted(system: fn() -> Arc<dyn Environment>) -> Defaults {
/// Defaults { environment: system, verifiers: Vec::new }
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Makes the clock and the source of entropy.
    pub environment: fn() -> Arc<dyn Environment>,
    /// Makes the verifiers, each with the kind of resource it inspects.
    pub verifiers: fn() -> VerifiersByKind,
}

inventory::collect!(Defaults);

/// Verifiers, each with the kind of resource it inspects.
pub(crate) type VerifiersByKind = Vec<(&'static str, Arc<dyn Verifier>)>;
