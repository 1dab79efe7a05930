//! What a start says about its queue and its times.
//!
//! Promise: what is not usable is refused before anything is recorded.

use std::time::Duration;

use jiff::Timestamp;

use crate::vocabulary::budget::Budget;
use crate::vocabulary::environment::later;
use crate::vocabulary::queue::{QueueError, QueuePlace, StartTerms};

/// The options of a start as they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueOptions {
    pub(super) queue: Option<String>,
    pub(super) key: Option<String>,
    pub(super) priority: Option<i32>,
    pub(super) at: Option<Timestamp>,
    pub(super) expires: Option<Duration>,
    pub(super) budget: Option<Budget>,
}

impl QueueOptions {
    /// The terms of a run that is started at `now`.
    pub(super) fn terms(self, now: Timestamp) -> Result<StartTerms, QueueError> {
        let Self { queue, key, priority, at, expires, budget } = self;
        let budget = budget.map(Box::new);
        let Some(queue) = queue else {
            let given =
                [("key", key.is_some()), ("priority", priority.is_some()), ("expires", expires.is_some())];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                Some((option, _)) => Err(QueueError::NoQueue { option }),
                None => Ok(StartTerms { not_before: at, budget, ..StartTerms::default() }),
            };
        };
        let mut place = QueuePlace::new(queue)?;
        if let Some(key) = key {
            place = place.with_key(key)?;
        }
        place.priority = priority.unwrap_or_default();
        let terms = StartTerms { queue: Some(place), not_before: at, budget, ..StartTerms::default() };
        // It waits for a turn from when on it can begin.
        let expires_at = expires.map(|within| later(terms.begins(now), within));
        Ok(StartTerms { expires_at, ..terms })
    }
}
