//! What the engine needs from outside: a clock, entropy, and timers. The caller provides them, so that tests can replace
//! them.
//!
//! Promise: the engine reads no other clock and draws from no other source.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// Clock and entropy of an engine.
pub trait Environment: Send + Sync + Debug + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Whether [`Environment::now`] is the wall clock of one machine. On a store that several machines share, an engine
    /// then takes the time from the store ([`Store::clock`](crate::store::Store::clock)). The default says no: a clock of
    /// a test's own is kept.
    fn is_of_one_machine(&self) -> bool {
        false
    }

    /// Fills `bytes` with unpredictable values.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Completes when the clock has reached `until`.
    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()>;

    /// Completes after `span`. The engine uses it for its periodic tasks and for the time limits of bodies. Where the
    /// clock can be set back, implement it with a monotonic timer: the default waits until the clock has caught up.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(later(self.now(), span))
    }

    /// Time since some fixed moment, by a clock that nobody sets. Leases are measured with it. The default is the
    /// system's monotonic clock; a world whose time does not pass by itself has one of its own.
    fn monotonic(&self) -> Duration {
        #[allow(clippy::disallowed_types, reason = "no task meets another one here")]
        static BEGINNING: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        #[allow(
            clippy::disallowed_methods,
            reason = "the one default clock; environments with their own time replace it"
        )]
        BEGINNING.get_or_init(Instant::now).elapsed()
    }

    /// Runs `task`, which renews leases, where bodies that block their threads do not hold it up. The default gives it to
    /// the caller's runtime, where they can.
    fn spawn_keeper(&self, task: BoxFuture<'static, ()>) {
        #[allow(
            clippy::disallowed_methods,
            reason = "an exploration of schedules has an environment of its own"
        )]
        tokio::spawn(task);
    }
}

/// How far the clocks of two workers may be apart. What lies further ahead was written by a clock that was set back since.
pub(crate) const CLOCKS_APART: Duration = Duration::from_secs(60);

/// How long who has waited for so long, for what comes without a word, waits until it looks again: a tenth of that, a second at
/// most. So it comes a tenth later than it could, and those that wait for long ask seldom.
pub(crate) fn next_look(waited: Duration) -> Duration {
    (waited / 10).min(Duration::from_secs(1))
}

/// `at` plus `wait`, at most the last instant a timestamp can hold.
pub(crate) fn later(at: Timestamp, wait: Duration) -> Timestamp {
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
