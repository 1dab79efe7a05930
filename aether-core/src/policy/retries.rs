//! The retry policies of an engine, for steps and calls that declare none.
//!
//! Promise: a policy is for calls that may be repeated without harm. One that may change the world is retried only as its
//! step declares.

use crate::definition::def::Retry;
use crate::vocabulary::outcome::EffectClass;

/// The retry policies of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    /// Of reads.
    pub(crate) read: Retry,
    /// Of model calls.
    pub(crate) model: Retry,
}

impl Default for Retries {
    fn default() -> Self {
        Self { read: Retry::of(EffectClass::Read), model: Retry::of(EffectClass::Llm) }
    }
}

impl Retries {
    /// The policy of `class`.
    pub(crate) const fn of(&self, class: EffectClass) -> Retry {
        match class {
            EffectClass::Read => self.read,
            EffectClass::Llm => self.model,
            class => Retry::of(class),
        }
    }
}
