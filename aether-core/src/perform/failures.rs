//! How the attempts at a step failed so far, and whether its retry policy allows another one.
//!
//! Promise: it is folded from recorded events only, so a restart neither begins the patience anew nor counts differently.

use std::time::Duration;

use jiff::Timestamp;

use crate::definition::def::Retry;
use crate::journal::event::StepRetried;
use crate::journal::history::CommandRecord;
use crate::vocabulary::environment::later;
use crate::vocabulary::outcome::FailureClass;

/// How the attempts at a step failed so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    /// When the first attempt failed.
    since: Option<Timestamp>,
    /// Retries after failures without a class.
    unclassified: u32,
}

impl Failures {
    /// What a journal holds of them.
    pub(crate) fn recorded(record: &CommandRecord) -> Self {
        Self { since: record.failing_since, unclassified: record.unclassified_retries }
    }

    /// Takes in a failure that was recorded.
    pub(crate) fn add(&mut self, retried: &StepRetried) {
        self.since.get_or_insert(retried.since.unwrap_or(retried.due));
        self.unclassified = self.unclassified.saturating_add(u32::from(retried.unclassified));
    }

    /// `now`, if no failure is recorded yet.
    pub(crate) fn begin(&self, now: Timestamp) -> Option<Timestamp> {
        self.since.is_none().then_some(now)
    }

    /// Whether `retry` allows another attempt after `attempt` failed at `now` with an error of `class`.
    pub(crate) fn allow(&self, retry: &Retry, attempt: u32, class: FailureClass, now: Timestamp) -> bool {
        let may_pass = match class {
            FailureClass::Permanent | FailureClass::Compensatable => false,
            FailureClass::Unclassified => self.unclassified < retry.unclassified,
            FailureClass::Retryable | FailureClass::Unknown => true,
        };
        may_pass && retry.wait_after(attempt).is_some() && self.end(retry, now).is_none_or(|end| now < end)
    }

    /// When the attempt after a `wait` that began at `now` is due: not after the patience of `retry`, unless the other
    /// side `asked` for a longer wait.
    pub(crate) fn due(
        &self,
        retry: &Retry,
        wait: Duration,
        asked: Option<Duration>,
        now: Timestamp,
    ) -> Timestamp {
        let due = later(now, wait);
        let due = self.end(retry, now).map_or(due, |end| due.min(end));
        due.max(later(now, asked.unwrap_or_default()))
    }

    /// When the patience of `retry` ends.
    fn end(&self, retry: &Retry, now: Timestamp) -> Option<Timestamp> {
        Some(later(self.since.unwrap_or(now), retry.patience?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_last_attempt_is_made_when_the_patience_ends() {
        let retry = Retry::within(10 * MINUTE);
        let failures = Failures { since: Some(second(0)), unclassified: 0 };
        let allow = |at| failures.allow(&retry, 20, FailureClass::Retryable, second(at));
        assert_eq!([allow(0), allow(599), allow(600), allow(9_999)], [true, true, false, false]);
        assert_eq!(failures.due(&retry, MINUTE, None, second(500)), second(560));
        assert_eq!(failures.due(&retry, MINUTE, None, second(590)), second(600));
        // What the other side asks for outweighs the patience.
        assert_eq!(failures.due(&retry, MINUTE, Some(5 * MINUTE), second(590)), second(890));
    }

    #[test]
    fn only_failures_without_a_class_use_up_their_number() {
        let mut failures = Failures::default();
        let allow = |failures: &Failures, class| failures.allow(&Retry::READ, 7, class, second(9));
        for unclassified in [true, false, true, true] {
            assert!(allow(&failures, FailureClass::Unclassified));
            let (command, error) = ("0:x".to_owned().into(), crate::vocabulary::payload::Payload::null());
            let since = failures.begin(second(5));
            failures.add(&StepRetried { command, attempt: 0, error, due: second(6), since, unclassified });
        }
        assert!(!allow(&failures, FailureClass::Unclassified));
        assert!(allow(&failures, FailureClass::Retryable));
        assert!(!allow(&failures, FailureClass::Permanent));
        assert_eq!(failures.since, Some(second(5)));
    }
}
