//! What the engine's own tasks last did: for people and probes that ask whether it is well.
//!
//! Promise: times are of a clock that nobody sets, so that a leap of the time of day makes nothing look old or new.

use std::time::Duration;

use crate::store::error::StoreError;

/// What the engine's own tasks last did, in time since the beginning of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    /// When runs were claimed last, or found to be none.
    pub(super) claimed: Option<Duration>,
    /// When leases were renewed last.
    pub(super) renewed: Option<Duration>,
    /// When the renewal began that has no answer yet.
    pub(super) renewing: Option<Duration>,
    /// Since when the store refuses to write, and what it said last.
    pub(super) refused: Option<(Duration, StoreError)>,
    /// Somebody wants to know whether the store can be written: then leases are renewed also where there are none.
    pub(super) asked: bool,
    /// The task that claims runs has ended although nobody stopped the engine.
    pub(super) broken: bool,
}

impl Vitals {
    /// For how long the store has refused to write, and why. A write that has no answer for a whole lease is refused too:
    /// the store keeps it, and tries again and again.
    pub(super) fn refusing(&self, now: Duration, lease: Duration) -> Option<(Duration, String)> {
        let refused =
            self.refused.as_ref().map(|(since, error)| (now.saturating_sub(*since), error.to_string()));
        let unanswered = self.renewing.map(|began| now.saturating_sub(began)).filter(|time| *time >= lease);
        refused.or_else(|| unanswered.map(|time| (time, "a renewal of leases has no answer".into())))
    }

    /// A write was answered at `now`.
    pub(super) fn wrote<T>(&mut self, now: Duration, answer: &Result<T, StoreError>) {
        self.refused = match (answer, self.refused.take()) {
            (Ok(_), _) => None,
            (Err(error), refused) => Some((refused.map_or(now, |(since, _)| since), error.clone())),
        };
    }
}
