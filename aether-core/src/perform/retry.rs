//! When the next attempt at a step is made.
//!
//! Promise: the due time is recorded before the wait begins, and a restart starts neither the wait nor the patience over.
//! The wait is a durable one, so that the run may be evicted. The jitter is derived from the run's seed, so that it needs
//! no clock and no entropy.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::journal::event::{Event, StepRetried};
use crate::perform::call::StepCall;
use crate::run::append::AppendExtras;
use crate::store::ledger::LedgerStatus;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::{FailureClass, Outcome};
use crate::vocabulary::payload::Payload;

/// The longest wait that the other side is granted; whoever asks for more is asked again after it.
pub(crate) const ASKED_AT_MOST: Duration = Duration::from_hours(24);

impl StepCall {
    /// The attempt after `attempt`, which took this long and failed at `now` with an error of `class`; `None` where none is
    /// left.
    ///
    /// Its wait is that of the retry policy, shortened by jitter. The jitter is the same whenever the same attempt fails. The
    /// last attempt is made when the patience ends. What the other side asks for is waited in any case, a day at most.
    pub(crate) fn next_attempt(
        &self,
        attempt: u32,
        class: FailureClass,
        asked: Option<Duration>,
        took: Duration,
    ) -> Option<NextAttempt> {
        let retry = self.options.retry();
        if !self.failures.allow(&retry, attempt, class, took) {
            return None;
        }
        let wait = retry.wait_after(attempt)?;
        let wait = retry.shortened(wait, chance(&self.run.seed, &self.command, attempt));
        let wait =
            wait.min(self.failures.left(&retry, took)).max(asked.unwrap_or_default().min(ASKED_AT_MOST));
        // Behind the end of a budget's time no attempt is made: it is refused then, and not later.
        let wait = self.time_left().map_or(wait, |left| wait.min(left));
        let spent = self.failures.spent_after(took).saturating_add(wait);
        let unclassified = class == FailureClass::Unclassified;
        Some(NextAttempt { due: later(self.run.now(), wait), spent, unclassified })
    }

    /// How long the newest attempt has taken in this process.
    pub(crate) fn took(&self) -> Duration {
        let now = self.run.shared.environment.monotonic();
        self.tried_since.map_or(Duration::ZERO, |began| now.saturating_sub(began))
    }

    /// Records a definite failure, and waits until the next attempt is due.
    pub(crate) async fn retry(&mut self, error: Payload, next: NextAttempt) {
        let (events, extras) = self.retried(error, next);
        self.end_attempt(events, extras).await;
        self.attempt = self.attempt.saturating_add(1);
        self.begin_sendings();
        self.wait_until(next.due).await;
    }

    /// What a definite failure appends that is tried again.
    pub(crate) fn retried(&mut self, error: Payload, next: NextAttempt) -> (Vec<Event>, AppendExtras) {
        let mut events = self.start_events();
        let mut extras = self.extras();
        if self.options.class.changes_world() {
            events.push(self.invocation_finished(Outcome::RetryableFailure, None, Some(error.clone())));
            extras.ledger.extend(self.ledger_update(LedgerStatus::Failed, None, Some(error.clone())));
        }
        let (command, attempt) = (self.command.clone(), self.attempt);
        let NextAttempt { due, spent, unclassified } = next;
        let took = self.spent.take();
        let spent_ms = u64::try_from(spent.as_millis()).ok();
        let retried = StepRetried { command, attempt, error, due, spent_ms, unclassified, spent: took };
        self.failures.add(&retried);
        events.push(retried.into());
        (events, extras)
    }
}

/// The next attempt at a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextAttempt {
    /// When it is due.
    due: Timestamp,
    /// How long the attempts before it and their waits take.
    spent: Duration,
    /// The attempt before it failed without a class.
    unclassified: bool,
}

/// A number from 0 to 1 that run, command and attempt determine.
fn chance(seed: &str, command: &CommandId, attempt: u32) -> f64 {
    let mut hash = Sha256::new();
    hash.update(b"wait");
    hash.update(seed.as_bytes());
    hash.update(command.as_str().as_bytes());
    hash.update(attempt.to_be_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    f64::from(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::def::Retry;

    #[test]
    fn a_wait_is_shortened_by_at_most_the_jitter_and_the_same_for_the_same_attempt() {
        let retry = Retry { jitter: 0.25, ..Retry::READ };
        let wait = Duration::from_secs(8);
        let waits = |seed: &str| -> Vec<Duration> {
            let chance = |attempt| chance(seed, &CommandId::new("0", "x"), attempt);
            (0..50).map(|attempt| retry.shortened(wait, chance(attempt))).collect()
        };
        let mut all = waits("a");
        assert_eq!(all, waits("a"));
        assert_ne!(all, waits("b"));
        assert!(all.iter().all(|shorter| (Duration::from_secs(6)..=wait).contains(shorter)), "{all:?}");
        all.sort();
        all.dedup();
        assert!(all.len() > 40, "{all:?}");
    }
}
