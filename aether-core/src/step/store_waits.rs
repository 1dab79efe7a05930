//! The times in which a body waits until the store has taken, or found, what it keeps there.
//!
//! Promise: nothing here waits for a store; whoever counts the time of a body can leave these times out.

use std::sync::atomic::Ordering;

use crate::sched::{AtomicUsize, Notify};

/// The times in which one execution of a body waits for the store.
#[derive(Debug, Default)]
pub(crate) struct StoreWaits {
    /// How many [`StoreWait`]s there are.
    open: AtomicUsize,
    /// The first one began, or the last one ended.
    changed: Notify,
}

/// One such time, until it is dropped.
#[derive(Debug)]
pub(crate) struct StoreWait<'w>(&'w StoreWaits);

impl StoreWaits {
    /// The body waits for the store until what is returned is dropped.
    pub(crate) fn begin(&self) -> StoreWait<'_> {
        if self.open.fetch_add(1, Ordering::AcqRel) == 0 {
            self.changed.notify_waiters();
        }
        StoreWait(self)
    }

    /// Completes when the body waits for the store.
    pub(crate) async fn begun(&self) {
        self.until(|open| open > 0).await;
    }

    /// Completes when the body does not wait for the store.
    pub(crate) async fn over(&self) {
        self.until(|open| open == 0).await;
    }

    async fn until(&self, holds: impl Fn(usize) -> bool) {
        loop {
            // Before the look, so that a change in between is not missed.
            let changed = self.changed.notified();
            if holds(self.open.load(Ordering::Acquire)) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for StoreWait<'_> {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}
