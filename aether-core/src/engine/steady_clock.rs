//! Whether the engine's clock is to be believed where another one, that was ahead, has left times in the store.
//!
//! Promise: a process that has just begun, or whose clock was just set, judges nothing: it may be its own clock that is wrong,
//! and about to be set right.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::sched::Mutex;
use crate::vocabulary::environment::Environment;

/// How long a clock must have gone regularly to be believed.
pub(crate) const STEADY: Duration = Duration::from_secs(600);
/// How far it may go wrong between two looks at it.
const LEAP: SignedDuration = SignedDuration::from_secs(60);

/// What is known of the engine's clock.
#[derive(Debug, Default)]
pub(crate) struct SteadyClock(Mutex<Option<Reading>>);

#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Timestamp,
    monotonic: Duration,
    /// Since when it goes regularly.
    since: Duration,
}

impl Reading {
    /// The next reading of the clock.
    fn then(self, wall: Timestamp, monotonic: Duration) -> Self {
        let passed =
            SignedDuration::try_from(monotonic.saturating_sub(self.monotonic)).unwrap_or(SignedDuration::MAX);
        let leap = wall.duration_since(self.wall).saturating_sub(passed).abs();
        let since = if leap > LEAP { monotonic } else { self.since };
        Self { wall, monotonic, since }
    }
}

impl SteadyClock {
    /// Whether the clock has gone regularly for ten minutes. To be asked every few seconds: a clock that is set and set back
    /// in between is not noticed.
    pub(crate) fn is_steady(&self, environment: &dyn Environment) -> bool {
        self.steady_for(environment) >= STEADY
    }

    /// For how long the clock has gone regularly, as far as this process knows.
    pub(crate) fn steady_for(&self, environment: &dyn Environment) -> Duration {
        self.look(environment.now(), environment.monotonic())
    }

    fn look(&self, wall: Timestamp, monotonic: Duration) -> Duration {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = match *last {
            Some(last) => last.then(wall, monotonic),
            None => Reading { wall, monotonic, since: monotonic },
        };
        *last = Some(reading);
        monotonic.saturating_sub(reading.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_believed_when_it_has_gone_regularly_for_long() {
        let clock = SteadyClock::default();
        let look = |wall: i64, monotonic: u64| {
            clock.look(Timestamp::from_second(wall).unwrap(), Duration::from_secs(monotonic)) >= STEADY
        };
        assert!(!look(1_000, 0));
        assert!(!look(1_590, 599));
        // Slewed by less than a minute between two looks.
        assert!(look(1_640, 600));
        assert!(look(2_700, 1_650));
        // Set ahead, and back.
        assert!(!look(90_000, 1_651));
        assert!(!look(90_599, 2_250));
        assert!(!look(3_300, 2_251));
        assert!(!look(3_890, 2_850));
        assert!(look(3_900, 2_860));
    }
}
