//! Sending an invocation of unknown outcome again, under its key.
//!
//! Promise: each decision to do so is durable before the body is called; what a sending that is not the first one fails
//! with is true of that sending only, so the outcome stays unknown and the key is kept; the sendings are bounded, and a
//! wait between two of them is recorded, so that a restart neither shortens it nor counts from the beginning.

use std::time::Duration;

use crate::definition::def::Retry;
use crate::journal::event::InvocationDecision;
use crate::journal::event::resend::Resend;
use crate::journal::history::record::Invocation;
use crate::perform::body_outcome::{BodyOutcome, Lost};
use crate::perform::call::{Next, StepCall};
use crate::perform::retry::ASKED_AT_MOST;
use crate::step::body::BodyError;
use crate::store::ack::Receipt;
use crate::store::intent::DurableIntent;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::{IdempotencyKey, InvocationId};
use crate::vocabulary::outcome::FailureClass;

/// Calls of one invocation under one key before its outcome is left unknown, unless its step's `retry` allows more.
pub(crate) const MAX_SENDS: u32 = 5;

impl StepCall {
    /// Calls the body under the intent of an invocation, or of one that is sent again.
    pub(crate) async fn send(&mut self, intent: DurableIntent) -> Next {
        match self.call_under(intent).await {
            Some(ended) if self.is_sent_again() => self.settle_resend(ended),
            Some(ended) => Next::Settle(ended),
            None => Box::pin(self.too_late()).await,
        }
    }

    /// The time of a budget was over before the body could begin. Where it was never called under its intent, that is known:
    /// the attempt after it is refused.
    async fn too_late(&mut self) -> Next {
        if std::mem::take(&mut self.uncalled) {
            self.record_not_executed("engine: over budget");
            return Next::Again;
        }
        // A run that is being cancelled, and an engine that stops, leave it to whoever goes on.
        self.run.still_open().await;
        let last = self.lost.take().map(|last| format!("; the last time: {last}")).unwrap_or_default();
        let why = format!("the time of a budget was over before it could be called again{last}");
        let invocation = self.invocation();
        self.leave_in_doubt(&invocation, &why).await
    }

    /// Whether the newest call of the body was not the first one of its invocation. What came of the others is not known.
    pub(crate) fn is_sent_again(&self) -> bool {
        self.unknown_tries > 0
    }

    /// The next sending is the first one of another invocation.
    pub(crate) fn begin_sendings(&mut self) {
        (self.unknown_tries, self.resend, self.asked) = (0, None, None);
    }

    /// What follows from the end of a sending that is not the first one. A value is the outcome: the receiver knows the key.
    /// That something was done half-way is true whichever sending did it. Any other error is about this sending.
    fn settle_resend(&mut self, ended: BodyOutcome) -> Next {
        let said = ended.said(&self.options);
        let (why, may_pass) = match &ended {
            BodyOutcome::Value(_)
            | BodyOutcome::Pending(_)
            | BodyOutcome::TimedOut
            | BodyOutcome::HeartbeatLost
            | BodyOutcome::Unrecordable(_, Lost::Value) => return Next::Settle(ended),
            BodyOutcome::Error(BodyError { message: why, .. })
            | BodyOutcome::Unrecordable(why, Lost::Error(_)) => match said.class {
                FailureClass::Compensatable => return Next::Settle(ended),
                FailureClass::Permanent => (why.clone(), false),
                FailureClass::Unclassified | FailureClass::Retryable | FailureClass::Unknown => {
                    self.asked = said.retry_after;
                    (why.clone(), true)
                }
            },
            BodyOutcome::Panicked(message) => (format!("it panicked: {message}"), false),
            BodyOutcome::Unrecordable(reason, Lost::Other) | BodyOutcome::Refused(reason) => {
                (reason.clone(), false)
            }
            BodyOutcome::OverBudget(over) => (over.to_string(), false),
        };
        // What this sending did not take, one before it may have taken.
        self.spent = None;
        self.lost = Some(if may_pass {
            why
        } else {
            format!("it was sent again and failed, which says nothing about the sending before: {why}")
        });
        let decided = (!may_pass).then_some(InvocationDecision::InDoubt);
        Next::Unknown(self.invocation(), self.key(), decided)
    }

    /// Takes up the resend that a process decided on before it ended, or before the run left the memory.
    pub(crate) fn take_up_resend(&mut self, invocation: &Invocation) {
        let is_due = invocation.decision == Some(InvocationDecision::Retry);
        self.resend = invocation.resend.filter(|_| is_due);
        let sent = |resend: Resend| resend.number.saturating_sub(u32::from(is_due));
        self.unknown_tries = invocation.resend.map_or(0, sent);
    }

    /// Calls the same body again under the same key, after the decision is durable.
    pub(crate) async fn send_again(&mut self, invocation: &InvocationId, key: &IdempotencyKey) -> Next {
        if self.is_out_of_time() {
            return self.too_late().await;
        }
        let taken_up = self.resend.take();
        if taken_up.is_none() && !self.may_send_again() {
            let last = self.lost.take().map(|last| format!("; the last time: {last}")).unwrap_or_default();
            let why = format!("it was called several times without an answer{last}");
            return self.leave_in_doubt(invocation, &why).await;
        }
        self.unknown_tries = self.unknown_tries.saturating_add(1);
        // As before any attempt: a run that is being cancelled, and an engine that stops, begin none.
        self.run.still_open().await;
        // One that comes behind the last look is for the call that follows.
        if let Some(reported) = self.look_for_report(invocation).await {
            return reported;
        }
        self.reopen_reports();
        let resend = taken_up.or_else(|| self.next_resend());
        resend.iter().for_each(|resend| self.failures.add_resend(resend));
        // Where a wait for the limit is recorded behind the decision, that stands, and the wait goes on.
        let mut decided = match self.limited {
            Some(_) => None,
            None => Some(self.decide_to_resend(invocation, resend).await),
        };
        if resend.is_some() || self.limit.is_some() {
            if let Some(resend) = resend {
                self.wait_until(resend.due).await;
                // The wait counts already.
                self.tried_since = None;
            }
            if self.limit.is_some() && Box::pin(self.await_limit()).await {
                decided = None;
            }
            self.run.still_open().await;
            if let Some(reported) = self.look_for_report(invocation).await {
                return reported;
            }
        }
        // Said once more behind a wait for the limit: its place is used from here on, whoever goes on.
        let receipt = match decided {
            Some(receipt) => receipt,
            None => self.decide_to_resend(invocation, resend).await,
        };
        let now = self.run.shared.environment.monotonic();
        self.tried_since.get_or_insert(now);
        Next::Call(DurableIntent::reissued(key.clone(), &receipt))
    }

    /// Records that the invocation is sent again; durable when it returns.
    async fn decide_to_resend(&mut self, invocation: &InvocationId, resend: Option<Resend>) -> Receipt {
        let mut events = self.start_events();
        events.push(self.resending(invocation, resend));
        let extras = self.extras();
        self.run.append_durably(events, None, extras).await
    }

    /// Whether the invocation may be sent once more: so often in any case, and beyond that as its step's policy allows.
    fn may_send_again(&self) -> bool {
        let (retry, failed) = (self.options.retry(), self.attempt.saturating_add(self.unknown_tries));
        self.unknown_tries + 1 < MAX_SENDS
            || self.failures.allow(&retry, failed, FailureClass::Unknown, self.took())
    }

    /// When the invocation is sent the next time; `None` for at once. The wait is that of reads, or the longer one of the
    /// step's policy; what the other side asks for is waited in any case, a day at most.
    fn next_resend(&mut self) -> Option<Resend> {
        let number = self.unknown_tries;
        let grown = number.checked_sub(2).map_or(Duration::ZERO, |failed| {
            let (usual, own) = (Retry::READ.wait_after(failed), self.options.retry().wait_after(failed));
            usual.max(own).unwrap_or_default()
        });
        let wait = grown.max(self.asked.take().unwrap_or_default().min(ASKED_AT_MOST));
        // Behind the end of a budget's time it is not called: it is in doubt then, and not later.
        let wait = self.time_left().map_or(wait, |left| wait.min(left));
        let spent = self.failures.spent_after(self.took()).saturating_add(wait);
        let spent_ms = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
        (!wait.is_zero()).then(|| Resend { number, due: later(self.run.now(), wait), spent_ms })
    }
}

#[cfg(test)]
mod tests;
