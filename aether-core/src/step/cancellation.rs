//! How a step's body learns that its run is being cancelled, and what it has started that its execution is over.
//!
//! Promise: neither is ever taken back; who begins to listen late learns of it at once.

use std::sync::atomic::Ordering;

use crate::sched::{AtomicBool, Notify};

/// A flag that is set once and can be awaited.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    cancelled: AtomicBool,
    changed: Notify,
}

impl Cancellation {
    /// Sets the flag and wakes everybody who awaits it.
    pub(crate) fn cancel(&self) {
        // The flag first: a body that is woken looks at it.
        self.cancelled.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether the flag is set.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Waits until the flag is set.
    pub(crate) async fn cancelled(&self) {
        loop {
            // Created before the look: a cancellation between look and wait still wakes it.
            let changed = self.changed.notified();
            if self.is_cancelled() {
                return;
            }
            changed.await;
        }
    }
}
