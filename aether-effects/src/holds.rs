//! Peers that asked not to be called for a while: models, and hosts.
//!
//! Promise: what one call was told holds for all calls to that peer in this process, until the time that it named; a hold
//! is only lengthened, and ends by itself.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Longest hold, whatever a peer asks for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// What is left of a hold that counts as over: clocks of waits and of holds need not agree to the millisecond.
const OVER: Duration = Duration::from_millis(50);

/// How many holds are kept before those are forgotten that are over.
const REMEMBERED: usize = 1_000;

/// The holds of a set of clients on peers that are named by a `P`; clones share them.
#[derive(Debug)]
pub(crate) struct Holds<P>(Arc<Mutex<HashMap<P, Hold>>>);

impl<P> Clone for Holds<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> Default for Holds<P> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

#[derive(Clone, Debug)]
struct Hold {
    until: Instant,
    said: String,
}

impl<P: Eq + Hash> Holds<P> {
    /// How much longer `peer` is not to be called, and what it said.
    pub(crate) fn left(&self, peer: &P) -> Option<(Duration, String)> {
        let mut holds = self.lock();
        let Hold { until, said } = holds.get(peer)?.clone();
        let left = until.saturating_duration_since(Instant::now());
        if left <= OVER {
            holds.remove(peer);
            return None;
        }
        // Whole milliseconds are recorded: a wait that is cut down to them would end too early.
        Some((left + Duration::from_millis(1), said))
    }

    /// Holds calls to `peer` for `wait`.
    pub(crate) fn hold(&self, peer: P, wait: Duration, said: &str) {
        if wait.is_zero() {
            return;
        }
        let now = Instant::now();
        let until = now + wait.min(LONGEST);
        let mut holds = self.lock();
        // Peers that nobody calls again are forgotten.
        if holds.len() >= REMEMBERED {
            holds.retain(|_, hold| hold.until > now);
        }
        let hold = holds.entry(peer).or_insert_with(|| Hold { until, said: said.to_owned() });
        if until > hold.until {
            *hold = Hold { until, said: said.to_owned() };
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<P, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_lengthened_and_not_shortened_and_ends_by_itself() {
        let (holds, model) = (Holds::default(), "small");
        assert_eq!(holds.left(&model), None);
        holds.hold(model, Duration::from_secs(10), "slow down");
        holds.hold(model, Duration::from_secs(2), "less");
        let (left, said) = holds.left(&model).unwrap();
        assert_eq!((left.as_secs(), &*said), (10, "slow down"));
        assert_eq!(holds.left(&"large"), None, "another model is free");
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(holds.left(&model).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(holds.left(&model), None);
        holds.hold(model, Duration::MAX, "never again");
        assert!(holds.left(&model).unwrap().0 <= LONGEST + OVER);
    }
}
