//! Orders of the driver that belong together.
//!
//! Promise: one that is not answered, because its process is gone, is given again, to another one.

use std::time::{Duration, Instant};

/// Orders that are given one after the other, each when the one before it is answered.
pub(super) struct Task {
    pub(super) orders: Vec<String>,
    pub(super) done: usize,
    pub(super) not_before: Instant,
    /// The number under which the next one was given, and the process.
    pub(super) given: Option<(u64, u32)>,
}

impl Task {
    pub(super) fn new(orders: Vec<String>, wait: Duration) -> Self {
        Self { orders, done: 0, not_before: Instant::now() + wait, given: None }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.given.is_none() && self.done < self.orders.len() && self.not_before <= now
    }
}
