//! How a step's body learns that its run is being cancelled.
//!
//! Promise: once told, always told; a body that begins to listen late is told at once.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Told once.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    told: AtomicBool,
    changed: Notify,
}

impl Cancellation {
    /// Tells everybody.
    pub(crate) fn cancel(&self) {
        self.told.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether it was told.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }

    /// Waits until it is told.
    pub(crate) async fn cancelled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_cancelled() {
                return;
            }
            changed.await;
        }
    }
}
