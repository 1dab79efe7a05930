//! The outside as the engine needs it: a clock, entropy, and a way to wait. Given by the caller, so that tests can
//! bring their own.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// Clock and entropy of an engine.
pub trait World: Send + Sync + Debug + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Fills `bytes` with unpredictable values.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Ends when the clock has reached `until`.
    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()>;
}

/// `at` plus `wait`, at most the last instant a timestamp can hold.
pub(crate) fn later(at: Timestamp, wait: std::time::Duration) -> Timestamp {
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
