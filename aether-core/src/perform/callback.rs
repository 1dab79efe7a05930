//! Callbacks: a body hands its completion to an external system, which reports the outcome later.
//!
//! Promise: a token names one attempt at one command and is the same whenever that attempt's body runs; the first valid
//! report completes the attempt, durably and once; a report that came before the body returned, or while no process
//! ran, counts before the step's `on_unknown` policy decides. Of a report and that decision the store takes one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::inbox::replies::{ExternalReply, Reply};
use crate::inbox::topics::callback_topic;
use crate::journal::event::{AnswerRefused, CallbackAwaited, CallbackReceived, InvocationDecision};
use crate::journal::history::record::Invocation;
use crate::perform::body_outcome::BodyOutcome;
use crate::perform::call::{Next, Reports, StepCall};
use crate::run::append::AppendExtras;
use crate::run::reply_receiver::{Received, ReplyReceiver, TIME_LIMIT};
use crate::run::taken::Taken;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::InvocationId;

impl StepCall {
    /// An invocation that was started and has no outcome: a callback may report it, or may have done so.
    pub(crate) async fn left_open(
        &mut self,
        invocation: &Invocation,
        callback: Option<(InvocationId, Option<Timestamp>)>,
    ) -> Next {
        self.note_returned(invocation, callback.as_ref().map(|(awaited, _)| awaited));
        // Reports first: one that came while no process ran is an outcome, and leaves the policy nothing to decide.
        if let Some(next) = self.early_callback(&invocation.id).await {
            return next;
        }
        match callback {
            Some((awaited, until)) if awaited == invocation.id && invocation.decision.is_none() => {
                // Another process may have found that its time was over, by a clock that was set back since.
                if self.reports == Reports::TimedOut {
                    return self.not_reported_in_time();
                }
                if !self.run.lists_wait(&self.command) {
                    // It was closed with the branch, or the workflow, that waited.
                    self.record_callback(until).await;
                }
                self.await_callback(until).await
            }
            _ => Next::Unknown(invocation.id.clone(), invocation.key.clone(), invocation.decision),
        }
    }

    /// Notes whether the body of this attempt is known to have come back: a callback is awaited, unless it was called again
    /// since.
    pub(crate) fn note_returned(&mut self, invocation: &Invocation, awaited: Option<&InvocationId>) {
        let handed_over = awaited == Some(&invocation.id);
        self.returned =
            (handed_over && invocation.decision != Some(InvocationDecision::Retry)).then_some(self.attempt);
    }

    /// The body returned without an outcome: a callback will report it.
    pub(crate) async fn hand_over(&mut self, limit: Option<Duration>) -> Next {
        let until = limit.map(|limit| later(self.run.now(), limit));
        self.record_callback(until).await;
        self.await_callback(until).await
    }

    /// Records that a callback is awaited; durable when it returns.
    async fn record_callback(&mut self, until: Option<Timestamp>) {
        let (command, invocation) = (self.command.clone(), self.invocation());
        let mut events = self.start_events();
        events.push(CallbackAwaited { command, invocation, until }.into());
        // Durable before the wait: after a crash the journal must say that a callback is awaited, or the invocation
        // would count as unknown while its report is on the way.
        let stored = self.run.store_large(&events).await;
        let mut extras = AppendExtras { stored, ..AppendExtras::default() };
        self.hand_over_streams(&mut extras);
        self.run.append_durably(events, None, extras).await;
        self.round += u32::from(std::mem::replace(&mut self.handed_over, true));
    }

    /// Waits for the report of this attempt's outcome.
    async fn await_callback(&mut self, until: Option<Timestamp>) -> Next {
        let invocation = self.invocation();
        let mut replies = self.callbacks(&invocation, until);
        loop {
            let received = replies.next_reply().await;
            if received.reply.reply == Reply::Expired {
                self.round = replies.round;
                self.reports = Reports::TimedOut;
                self.consumed.extend(received.consumed);
                return self.not_reported_in_time();
            }
            if let Some(next) = self.reported(received, &mut replies).await {
                return next;
            }
        }
    }

    fn not_reported_in_time(&mut self) -> Next {
        self.lost = Some("the callback it waits for did not come in time".into());
        Next::Unknown(self.invocation(), self.key(), None)
    }

    /// The first valid report that is in the store by now.
    pub(crate) async fn look_for_report(&mut self, invocation: &InvocationId) -> Option<Next> {
        let _in_flight = self.run.in_flight();
        self.run.look_into_inbox().await;
        self.early_callback(invocation).await
    }

    /// Ends the time in which a report of `invocation` counts, because `actor` is about to decide what became of it. Which of
    /// the two was first, the store decides. `None` when no valid report was first.
    pub(crate) async fn close_reports(&mut self, invocation: &InvocationId, actor: &str) -> Option<Next> {
        let _in_flight = self.run.in_flight();
        while self.reports == Reports::Welcome {
            let round = self.round_of_reports();
            ReplyReceiver { round, ..self.callbacks(invocation, None) }.close(actor).await?;
            if let Some(next) = self.early_callback(invocation).await {
                return Some(next);
            }
            // A report that was refused has begun a round of its own.
            if self.round_of_reports() == round {
                self.reports = Reports::Closed;
            }
        }
        None
    }

    /// Begins a round of its own for further words about the invocation, where the id of the last one is used up. Returns
    /// whether it is.
    pub(crate) fn reopen_reports(&mut self) -> bool {
        let is_closed = std::mem::take(&mut self.reports) == Reports::Closed;
        if is_closed {
            let reason = "the outcome is still unknown".into();
            self.notes
                .push(AnswerRefused { command: self.command.clone(), reason, actor: "engine".into() }.into());
            self.round += 1;
        }
        is_closed
    }

    /// The round that a report is sent in while no callback is awaited: it is for the wait that comes.
    fn round_of_reports(&self) -> u32 {
        self.round.saturating_add(u32::from(self.handed_over))
    }

    /// The first valid report that came before a crash, or before the body returned.
    pub(crate) async fn early_callback(&mut self, invocation: &InvocationId) -> Option<Next> {
        let mut replies = self.callbacks(invocation, None);
        while let Some(message) = self.run.take_message(&replies.topic) {
            if let Some(next) = self.late_callback(message, &mut replies).await {
                return Some(next);
            }
        }
        None
    }

    /// Accepts a message that reports the outcome; `None` when it was refused.
    async fn late_callback(&mut self, message: Taken, replies: &mut ReplyReceiver) -> Option<Next> {
        match Received::read(message) {
            Ok(received) => self.reported(received, replies).await,
            Err((reason, message)) => {
                replies.refuse("unknown", reason, vec![message]);
                self.round = replies.round;
                None
            }
        }
    }

    /// A report that arrived while an operator is asked about the invocation; `None` when it was refused.
    pub(crate) async fn reported_meanwhile(
        &mut self,
        invocation: &InvocationId,
        message: Taken,
    ) -> Option<Next> {
        let mut replies = self.callbacks(invocation, None);
        self.late_callback(message, &mut replies).await
    }

    fn callbacks(&self, invocation: &InvocationId, until: Option<Timestamp>) -> ReplyReceiver {
        ReplyReceiver {
            run: Arc::clone(&self.run),
            command: self.command.clone(),
            topic: callback_topic(invocation),
            until,
            round: self.round,
        }
    }

    /// Accepts a report; `None` when it was refused.
    async fn reported(&mut self, received: Received, replies: &mut ReplyReceiver) -> Option<Next> {
        let Received { reply: ExternalReply { reply, actor }, consumed } = received;
        let ended = match reply {
            Reply::Value(value) => {
                self.ask_body(|body| body.accepts(&value)).map(|()| BodyOutcome::Value(value))
            }
            Reply::Error(error) => self.ask_body(|body| body.failure(&error)).map(BodyOutcome::Error),
            // The end of the time for reports says nothing about the outcome.
            Reply::Expired => {
                self.reports = if actor == TIME_LIMIT { Reports::TimedOut } else { Reports::Closed };
                self.consumed.extend(consumed);
                return None;
            }
        };
        let too_large = match &ended {
            Ok(BodyOutcome::Value(value)) => self.run.too_large(value),
            Ok(BodyOutcome::Error(error)) => self.run.error_too_large(error),
            _ => None,
        };
        match (ended, too_large) {
            (Ok(ended), None) => {
                let (command, invocation) = (self.command.clone(), self.invocation());
                if self.returned != Some(self.attempt) {
                    // The body was cut off in the middle of what it sent.
                    self.disown_streams();
                }
                self.notes.push(CallbackReceived { command, invocation }.into());
                self.consumed.extend(consumed);
                (self.round, self.reports) = (replies.round, Reports::Closed);
                Some(Next::Settle(ended))
            }
            (Ok(_), Some(reason)) => self.refuse_report(replies, &actor, reason, consumed),
            (Err(error), _) => self.refuse_report(replies, &actor, error.to_string(), consumed),
        }
    }

    fn refuse_report(
        &mut self,
        replies: &mut ReplyReceiver,
        actor: &str,
        reason: String,
        consumed: Vec<Taken>,
    ) -> Option<Next> {
        replies.refuse(actor, reason, consumed);
        self.round = replies.round;
        None
    }
}
