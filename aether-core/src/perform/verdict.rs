//! What follows from the end of a body, and outcomes that were known when their calls were dropped.
//!
//! Promise: a call that is dropped after its body came back leaves the outcome with its run, which records it; nothing of
//! that waits for a store.

use std::time::Duration;

use crate::journal::obligations::undoes_another;
use crate::perform::body_outcome::{BodyOutcome, Lost, no_heartbeat};
use crate::perform::call::StepCall;
use crate::perform::retry::NextAttempt;
use crate::run::came_back::CameBack;
use crate::step::body::ErrorClass;
use crate::store::ledger::LedgerStatus;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::outcome::{FailureClass, Outcome};
use crate::vocabulary::payload::Payload;

/// What follows from the end of a body.
pub(crate) enum Verdict {
    Success(Payload),
    /// A callback will report the outcome, within the limit if there is one.
    HandedOver(Option<Duration>),
    /// The outcome is unknown: why, and how long the other side asks to be left alone.
    Unknown(String, Option<Duration>),
    /// This error is recorded, and another attempt is made.
    Again(Payload, NextAttempt),
    /// The step has failed: its outcome, its error, and what the ledger is to say of the invocation.
    Failed(Outcome, StepError<Payload>, LedgerStatus),
}

impl StepCall {
    /// What follows from the end of the newest attempt.
    pub(crate) fn verdict(&self, ended: BodyOutcome) -> Verdict {
        let changes_world = self.options.class.changes_world();
        let ErrorClass { class, retry_after: asked, .. } = ended.said(&self.options);
        let ended = match ended {
            BodyOutcome::Value(value) => return Verdict::Success(value),
            BodyOutcome::Pending(limit) => return Verdict::HandedOver(limit),
            ended => ended,
        };
        if class == FailureClass::Unknown && changes_world {
            let lost = match &ended {
                BodyOutcome::Error(error) => error.message.clone(),
                BodyOutcome::Unrecordable(reason, _) => reason.clone(),
                BodyOutcome::HeartbeatLost => no_heartbeat(&self.options),
                _ => format!("no answer within {:?}", self.timeout()),
            };
            return Verdict::Unknown(lost, asked);
        }
        if let Some(next) = self.next_attempt(self.attempt, class, asked, self.took()) {
            return Verdict::Again(self.error_of(ended, false).recorded(), next);
        }
        let may_retry = !matches!(class, FailureClass::Permanent | FailureClass::Compensatable);
        let status = match &ended {
            BodyOutcome::Panicked(_) | BodyOutcome::Unrecordable(_, Lost::Value | Lost::Other) => {
                LedgerStatus::InDoubt
            }
            // More may have been done than the half.
            _ if class == FailureClass::Compensatable && self.is_sent_again() => LedgerStatus::InDoubt,
            _ => LedgerStatus::Failed,
        };
        let error = self.error_of(ended, may_retry && self.options.retry().max_retries > 0);
        Verdict::Failed(class.outcome(), error, status)
    }

    /// The call is dropped, and its body had come back: leaves with the run what the call would have appended.
    pub(crate) fn keep_known(&mut self, ended: BodyOutcome) {
        // The undoing goes on with those that undo others. Of a sending that is not the first one only this is definite, and
        // where a token was passed on: a report of what an error says nothing of may have come.
        let is_definite = matches!(&ended, BodyOutcome::Value(_))
            || !self.passed_on
                && (!self.is_sent_again() || ended.said(&self.options).class == FailureClass::Compensatable);
        if !self.options.class.changes_world() || undoes_another(&self.command) || !is_definite {
            return;
        }
        if let Some(execution) = &self.execution {
            self.run.shared.streams.give_up(execution);
        }
        // What the call has taken goes back: nothing that is kept holds a message.
        self.consumed.clear();
        let invocation = self.invocation();
        let (events, extras) = match self.verdict(ended) {
            Verdict::Success(value) => {
                let (events, extras, _answer) = self.success(value, Vec::new());
                (events, extras)
            }
            Verdict::Again(error, next) => self.retried(error, next),
            Verdict::Failed(outcome, error, status) => {
                let (events, extras, _answer) = self.failure(outcome, &error, Some(status));
                (events, extras)
            }
            Verdict::HandedOver(_) | Verdict::Unknown(..) => return,
        };
        let (ledger, streams) = (extras.ledger, extras.streams);
        self.run.keep_known(CameBack { invocation, events, ledger, streams });
    }
}
