//! The outside as the engine needs it: a clock, entropy, and a way to wait. Given by the caller, so that tests can
//! bring their own.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// Clock and entropy of an engine.
pub trait Environment: Send + Sync + Debug + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Fills `bytes` with unpredictable values.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Ends when the clock has reached `until`.
    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()>;

    /// Ends after `span`: what the engine does again and again, and the time limits of bodies. A world whose clock can be
    /// set should not look at the clock for it, or a clock that is set back makes the engine wait for as long.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(later(self.now(), span))
    }
}

/// `at` plus `wait`, at most the last instant a timestamp can hold.
pub(crate) fn later(at: Timestamp, wait: Duration) -> Timestamp {
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
