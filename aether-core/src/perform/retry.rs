//! When the next attempt at a step is made.
//!
//! Promise: the due time is recorded before the wait begins, and a restart starts neither the wait nor the patience over.
//! The wait is a durable one, so that the run may be evicted. The jitter is derived from the run's seed, so that it needs
//! no clock and no entropy.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::journal::event::StepRetried;
use crate::perform::call::StepCall;
use crate::store::ledger::LedgerStatus;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::{FailureClass, Outcome};
use crate::vocabulary::payload::Payload;

impl StepCall {
    /// When the attempt after `attempt`, which failed at `now` with an error of `class`, is due; `None` where none is left.
    ///
    /// The wait is that of the retry policy, shortened by jitter, and at least what the error asks for. The jitter is the
    /// same whenever the same attempt fails.
    pub(crate) fn next_due(
        &self,
        attempt: u32,
        class: FailureClass,
        asked: Option<Duration>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let retry = self.options.retry();
        if !self.failures.allow(&retry, attempt, class, now) {
            return None;
        }
        let wait = retry.wait_after(attempt)?;
        let wait = retry.shortened(wait, chance(&self.run.seed, &self.command, attempt));
        Some(self.failures.due(&retry, wait, asked, now))
    }

    /// Records a definite failure, and waits until the next attempt is due.
    pub(crate) async fn retry(&mut self, error: Payload, class: FailureClass, due: Timestamp) {
        let mut events = self.start_events();
        let mut extras = self.extras();
        if self.options.class.changes_world() {
            events.push(self.invocation_finished(Outcome::RetryableFailure, None, Some(error.clone())));
            extras.ledger.extend(self.ledger_update(LedgerStatus::Failed, None, Some(error.clone())));
        }
        let (command, attempt) = (self.command.clone(), self.attempt);
        let since = self.failures.begin(self.run.now());
        let unclassified = class == FailureClass::Unclassified;
        let retried = StepRetried { command, attempt, error, due, since, unclassified };
        self.failures.add(&retried);
        events.push(retried.into());
        self.end_attempt(events, extras).await;
        self.attempt = self.attempt.saturating_add(1);
        self.unknown_tries = 0;
        self.wait_until(due).await;
    }
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
