//! Where those meet who undo one step.
//!
//! Promise: one of them does it; who comes later waits for that one, or goes on where it was dropped, once the race that
//! dropped it has said what became of its calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::sched::{AtomicBool, AtomicUsize, Notify, OnceCell};

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

/// Races whose losers are dropped and whose decisions are not appended yet.
#[derive(Debug, Default)]
pub(crate) struct Deciding {
    count: AtomicUsize,
    fewer: Notify,
}

impl Deciding {
    /// A race is about to be decided, until this is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Decision {
        self.count.fetch_add(1, Ordering::AcqRel);
        Decision(Arc::clone(self))
    }

    /// Waits until no race is about to be decided.
    pub(crate) async fn is_over(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            fewer.await;
        }
    }
}

/// A race that is about to be decided.
#[derive(Debug)]
pub(crate) struct Decision(Arc<Deciding>);

impl Drop for Decision {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.fewer.notify_waiters();
    }
}
