//! A value that is set once and waited for.
//!
//! Promise: the first value stays; later ones are dropped.

use std::fmt::Debug;
use std::sync::OnceLock;

use tokio::sync::Notify;

/// A value that is set once and waited for.
#[derive(Debug)]
pub(crate) struct Latch<T> {
    value: OnceLock<T>,
    set: Notify,
}

impl<T: Clone + Debug> Latch<T> {
    pub(super) fn new() -> Self {
        Self { value: OnceLock::new(), set: Notify::new() }
    }

    pub(super) fn set(&self, value: T) {
        let _first_counts = self.value.set(value);
        self.set.notify_one();
    }

    pub(crate) async fn wait(&self) -> T {
        loop {
            if let Some(value) = self.value.get() {
                return value.clone();
            }
            self.set.notified().await;
        }
    }
}
