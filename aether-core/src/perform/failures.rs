//! How the attempts at a step failed so far, and whether its retry policy allows another one.
//!
//! Promise: what is recorded is all that counts. A restart does not begin the patience anew, and the time in which no
//! process runs does not use it up.

use std::time::Duration;

use crate::definition::def::Retry;
use crate::journal::event::StepRetried;
use crate::journal::event::resend::Resend;
use crate::journal::history::record::CommandRecord;
use crate::vocabulary::outcome::FailureClass;

/// How the attempts at a step failed so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    /// How long the failed attempts and their waits took.
    spent: Duration,
    /// Retries after failures without a class.
    unclassified: u32,
}

impl Failures {
    /// What a journal holds of them.
    pub(crate) fn recorded(record: &CommandRecord) -> Self {
        let resend = record.invocation.as_ref().and_then(|invocation| invocation.resend);
        let spent_ms = resend.map_or(record.details().retry_spent_ms, |resend| resend.spent_ms);
        let spent = Duration::from_millis(spent_ms);
        Self { spent, unclassified: record.details().unclassified_retries }
    }

    /// Takes in a failure that was recorded.
    pub(crate) fn add(&mut self, retried: &StepRetried) {
        self.spent = retried.spent_ms.map_or(self.spent, Duration::from_millis);
        self.unclassified = self.unclassified.saturating_add(u32::from(retried.unclassified));
    }

    /// Takes in a resend that was recorded.
    pub(crate) fn add_resend(&mut self, resend: &Resend) {
        self.spent = Duration::from_millis(resend.spent_ms);
    }

    /// How long the attempts and their waits took when one more took this long.
    pub(crate) fn spent_after(&self, another: Duration) -> Duration {
        self.spent.saturating_add(another)
    }

    /// Whether `retry` allows another attempt after `attempt`, which took this long, failed with an error of `class`.
    pub(crate) fn allow(&self, retry: &Retry, attempt: u32, class: FailureClass, took: Duration) -> bool {
        let may_pass = match class {
            FailureClass::Permanent | FailureClass::Compensatable => false,
            FailureClass::Unclassified => self.unclassified < retry.unclassified,
            FailureClass::Retryable | FailureClass::Unknown => true,
        };
        may_pass && retry.wait_after(attempt).is_some() && self.left(retry, took) > Duration::ZERO
    }

    /// What is left of the patience of `retry` after an attempt that took this long.
    pub(crate) fn left(&self, retry: &Retry, took: Duration) -> Duration {
        retry.patience.map_or(Duration::MAX, |patience| patience.saturating_sub(self.spent_after(took)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn attempts_and_waits_use_up_the_patience() {
        let retry = Retry::within(10 * MINUTE);
        let failures = Failures { spent: 9 * MINUTE, unclassified: 0 };
        let allow = |took| failures.allow(&retry, 20, FailureClass::Retryable, took);
        assert_eq!(
            [0, 59, 60, 9_999].map(|took| allow(Duration::from_secs(took))),
            [true, true, false, false]
        );
        assert_eq!(failures.left(&retry, MINUTE / 2), MINUTE / 2);
        assert_eq!(failures.left(&Retry::times(3), MINUTE), Duration::MAX);
    }

    #[test]
    fn only_failures_without_a_class_use_up_their_number() {
        let mut failures = Failures::default();
        let allow = |failures: &Failures, class| failures.allow(&Retry::READ, 7, class, MINUTE);
        let due = jiff::Timestamp::UNIX_EPOCH;
        for unclassified in [true, false, true, true] {
            assert!(allow(&failures, FailureClass::Unclassified));
            let (command, error) = ("0:x".to_owned().into(), crate::vocabulary::payload::Payload::null());
            failures.add(&StepRetried {
                command,
                attempt: 0,
                error,
                due,
                spent_ms: Some(70),
                unclassified,
                spent: None,
            });
        }
        assert!(!allow(&failures, FailureClass::Unclassified));
        assert!(allow(&failures, FailureClass::Retryable));
        assert!(!allow(&failures, FailureClass::Permanent));
        assert_eq!(failures.spent, Duration::from_millis(70));
    }
}
