//! Where those meet who undo one step.
//!
//! Promise: one of them does it; who comes later waits for that one, or goes on where it was dropped.

use crate::sched::{AtomicBool, OnceCell};

/// The undoing of one step in this process.
#[derive(Debug)]
pub(crate) struct Undoing {
    pub(crate) is_done: OnceCell<()>,
    /// Somebody has begun, and may have been dropped since.
    pub(crate) is_begun: AtomicBool,
}

impl Default for Undoing {
    fn default() -> Self {
        Self { is_done: OnceCell::new(), is_begun: false.into() }
    }
}
