//! What the effect gate appends when a step call has ended: one atomic append, with the change of the ledger row in the
//! same transaction.
//!
//! Promise: a value is written once to a journal; `step_committed` is written on success only; an outcome with a large
//! value is durable in the effect store before it is appended.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};

use crate::journal::event::{CommandCommitted, Event, NodeFinished};
use crate::journal::frame::Frame;
use crate::journal::large_values::{has_large, large};
use crate::perform::call::StepCall;
use crate::policy::replay::Mode;
use crate::run::append::{AppendExtras, unencodable};
use crate::run::taken::Taken;
use crate::store::append::StoredEffect;
use crate::store::ledger::LedgerStatus;
use crate::store::streams::with_kept;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::{Answered, Payload};

impl StepCall {
    /// Records a success, in one atomic append that also consumes the inbox messages `consumed`.
    pub(crate) async fn commit_success(&mut self, value: Payload, consumed: Vec<Taken>) -> Answered {
        let (events, extras, answered) = self.success(value, consumed);
        self.end_attempt(events, extras).await;
        answered
    }

    /// What a success appends, and the answer to the call.
    pub(crate) fn success(
        &mut self,
        value: Payload,
        consumed: Vec<Taken>,
    ) -> (Vec<Event>, AppendExtras, Answered) {
        let outcome = Outcome::of_success(self.options.class);
        // An HTTP exchange that is the whole value is not repeated: replay takes the value from the last exchange.
        let exchanged = self.notes.iter().rev().find_map(|event| match event {
            Event::HttpRecorded(exchange) => Some(exchange.response == value),
            _ => None,
        });
        let mut result = (exchanged != Some(true)).then(|| value.clone());
        let mut events = self.start_events();
        let mut extras = self.extras();
        extras.consumed.extend(consumed);
        let mut key = None;
        if self.options.class.changes_world() {
            events.push(self.invocation_finished(outcome, result.take(), None));
            // Collected: to extend a list makes room for four.
            extras.ledger =
                Vec::from_iter(self.ledger_update(LedgerStatus::Succeeded, Some(value.clone()), None));
            key = Some(self.key());
        }
        events.extend(self.compensation(outcome, Some(&value)));
        let command = self.command.clone();
        let spent = self.spent.take();
        events
            .push(CommandCommitted { command, outcome, result, error: None, caught_up: false, spent }.into());
        events.push(NodeFinished { command: self.command.clone() }.into());
        events.push(self.step_committed(key));
        let answered = self.check_read(Ok(value), &mut events);
        self.end_streams(&answered, &mut extras);
        (events, extras, answered)
    }

    /// Records a final failure. `ledger` is the new status of the invocation, if one was started.
    pub(crate) async fn commit_failure(
        &mut self,
        outcome: Outcome,
        error: &StepError<Payload>,
        ledger: Option<LedgerStatus>,
    ) -> Answered {
        let (events, extras, answered) = self.failure(outcome, error, ledger);
        self.end_attempt(events, extras).await;
        answered
    }

    /// What a final failure appends, and the answer to the call.
    pub(crate) fn failure(
        &mut self,
        outcome: Outcome,
        error: &StepError<Payload>,
        ledger: Option<LedgerStatus>,
    ) -> (Vec<Event>, AppendExtras, Answered) {
        let error = error.recorded();
        let mut events = self.start_events();
        let mut extras = self.extras();
        let mut repeated = Some(error.clone());
        if let (Some(status), true) = (ledger, self.options.class.changes_world()) {
            events.push(self.invocation_finished(outcome, None, repeated.take()));
            extras.ledger.extend(self.ledger_update(status, None, Some(error.clone())));
        }
        events.extend(self.compensation(outcome, None));
        events.push(self.failed(outcome, repeated));
        events.push(NodeFinished { command: self.command.clone() }.into());
        let answered = self.check_read(Err(error), &mut events);
        self.end_streams(&answered, &mut extras);
        (events, extras, answered)
    }

    /// Appends what an attempt ended with. With a large value in it, there are two phases: first the outcome becomes
    /// durable in the effect store under the attempt's key, then it is appended. A crash between the two does not lose
    /// it; see [`StepCall::commit_stored_outcome`]. The other way round, the journal could refer to a lost value.
    pub(crate) fn end_attempt(
        &self,
        events: Vec<Event>,
        extras: AppendExtras,
    ) -> OptionFuture<BoxFuture<'_, ()>> {
        let run = &self.run;
        if run.mode != Mode::Verify && has_large(&events, run.shared.limits.inline) {
            return Some(self.end_with_large(events, extras).boxed()).into();
        }
        run.append(events, extras);
        None.into()
    }

    async fn end_with_large(&self, events: Vec<Event>, mut extras: AppendExtras) {
        let run = &self.run;
        let _in_flight = run.in_flight();
        extras.stored = large(&events, run.shared.limits.inline);
        let frame = match Frame::referring(&events, &extras.stored) {
            Ok(frame) => extras.streams.iter().fold(frame, with_kept),
            Err(error) => return run.stop(unencodable(run, error)).await,
        };
        let status = extras.ledger.first().map(|update| update.status);
        let effect = StoredEffect { run: run.id.clone(), key: self.key(), frame, status };
        run.save(effect, extras.stored.clone()).await;
        extras.drop_stored_values();
        run.append(events, extras);
    }
}

#[cfg(test)]
mod tests;
