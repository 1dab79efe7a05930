//! The watch where libc cannot be overridden: catches nothing, and warns once.

use std::sync::Once;
use std::time::Duration;

use aether_core::policy::{Consulted, ReplayPolicy, Verdict};

use super::hit::TrapHit;
use super::setting::Trap;

/// Not applied here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skew {
    /// How much later it would be.
    pub(crate) ahead: Duration,
}

/// A trap that is not set.
#[derive(Debug)]
pub(crate) struct Armed(());

impl Armed {
    /// Warns once that nothing is caught.
    pub(crate) fn set(trap: Trap, _: Option<Skew>, _: impl Fn(TrapHit) + 'static) -> Self {
        static SAID: Once = Once::new();
        if !trap.is_off() {
            SAID.call_once(|| {
                eprintln!(
                    "warning: aether-testing catches forbidden calls of workflow code only on Linux with glibc and with its feature `trap`; here they pass unseen"
                );
            });
        }
        let _unused = (trap.is_strict(), trap.allowed());
        Self(())
    }

    /// What was caught: nothing.
    pub(crate) fn hits(&self) -> Vec<TrapHit> {
        Vec::new()
    }
}

/// Whether a strict trap has caught something: never.
pub(crate) fn caught() -> bool {
    false
}

/// Remembers no commands, as nothing is caught.
#[derive(Debug)]
pub(crate) struct LastCommands;

impl ReplayPolicy for LastCommands {
    fn consult(&self, _: &Consulted<'_>) -> Verdict {
        Verdict::Default
    }
}
