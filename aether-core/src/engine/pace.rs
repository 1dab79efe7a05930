//! What an engine does once in each lease.
//!
//! Promise: however the wall clock is set, it is done again when a lease has passed.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::inner::Inner;
use crate::vocabulary::environment::Environment;

/// Says when it is time again.
#[derive(Debug)]
pub(super) struct Pace {
    environment: Arc<dyn Environment>,
    every: Duration,
    next: Duration,
}

impl Pace {
    /// For what is done at once, and then once in each lease of this engine.
    pub(super) fn of(inner: &Inner) -> Self {
        let environment = Arc::clone(&inner.shared.environment);
        let next = environment.monotonic();
        Self { environment, every: inner.settings.lease, next }
    }

    /// Whether it is time; then it is again a lease later.
    pub(super) fn is_time(&mut self) -> bool {
        let now = self.environment.monotonic();
        let is_time = now >= self.next;
        if is_time {
            self.next = now.saturating_add(self.every);
        }
        is_time
    }
}
