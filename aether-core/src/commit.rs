//! What the effect gate appends when a step call has ended: one atomic append for each ending, with the ledger row's
//! change in the same transaction.
//!
//! Promise: a value stands once in a journal; `step_committed` is written on success only.

use crate::event::{CommandCommitted, Event, NodeFinished, StepCommitted, ToolInvocationFinished};
use crate::failure::StepError;
use crate::id::IdempotencyKey;
use crate::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::perform::{Answered, Performance, step_error};
use crate::replay::Invocation;
use crate::run::Riders;

impl Performance {
    /// What rides with the next append: the messages it takes in.
    pub(crate) fn riders(&mut self) -> Riders {
        Riders { consumed: std::mem::take(&mut self.consumed), ..Riders::default() }
    }

    /// The events after the body, one atomic append; `consumed` are inbox messages that it takes in.
    pub(crate) fn commit_success(&mut self, value: Payload, consumed: Vec<u64>) -> Answered {
        let outcome = Outcome::of_success(self.options.class);
        // An HTTP exchange that is the whole value stands in the journal once; replay takes the last one.
        let exchanged = self.notes.iter().rev().find_map(|event| match event {
            Event::HttpRecorded(exchange) => Some(exchange.response == value),
            _ => None,
        });
        let mut result = (exchanged != Some(true)).then(|| value.clone());
        let mut events = self.start_events();
        let mut riders = self.riders();
        riders.consumed.extend(consumed);
        let mut key = None;
        if self.options.class.changes_world() {
            events.push(self.invocation_finished(outcome, result.take(), None));
            riders.ledger.extend(self.ledger_update(LedgerStatus::Succeeded, Some(value.clone()), None));
            key = Some(self.key());
        }
        events.extend(self.compensation(outcome, Some(&value)));
        let command = self.command.clone();
        events.push(CommandCommitted { command, outcome, result, error: None, caught_up: false }.into());
        events.push(NodeFinished { command: self.command.clone() }.into());
        events.push(self.step_committed(key));
        self.run.append(events, riders);
        Ok(value)
    }

    /// A final failure. `ledger` is the invocation's status, if one was started.
    pub(crate) fn commit_failure(
        &mut self,
        outcome: Outcome,
        error: &StepError<Payload>,
        ledger: Option<LedgerStatus>,
    ) -> Answered {
        let error = step_error(error);
        let mut events = self.start_events();
        let mut riders = self.riders();
        let mut repeated = Some(error.clone());
        if let (Some(status), true) = (ledger, self.options.class.changes_world()) {
            events.push(self.invocation_finished(outcome, None, repeated.take()));
            riders.ledger.extend(self.ledger_update(status, None, Some(error.clone())));
        }
        events.extend(self.compensation(outcome, None));
        events.push(self.failed(outcome, repeated));
        events.push(NodeFinished { command: self.command.clone() }.into());
        self.run.append(events, riders);
        Err(error)
    }

    pub(crate) fn failed(&self, outcome: Outcome, error: Option<Payload>) -> Event {
        CommandCommitted { command: self.command.clone(), outcome, result: None, error, caught_up: false }
            .into()
    }

    /// Takes over an outcome that was known before the crash; the body is not called. `ledger_lags` where the ledger
    /// has a row that does not hold it yet.
    pub(crate) fn catch_up(
        &mut self,
        invocation: &Invocation,
        outcome: Outcome,
        result: Answered,
        ledger_lags: bool,
    ) -> Answered {
        let (value, error) = match &result {
            Ok(value) => (Some(value.clone()), None),
            Err(error) => (None, Some(error.clone())),
        };
        let mut events = self.start_events();
        let mut riders = Riders::default();
        if invocation.finished.is_none() {
            events.push(
                ToolInvocationFinished {
                    command: self.command.clone(),
                    invocation: invocation.id.clone(),
                    outcome,
                    result: value.clone(),
                    error: error.clone(),
                    caught_up: true,
                }
                .into(),
            );
        }
        if ledger_lags {
            let status = if result.is_ok() { LedgerStatus::Succeeded } else { LedgerStatus::Failed };
            let key = invocation.key.clone();
            riders.ledger.push(LedgerUpdate { key, status, result: value, error, committed: true });
        }
        events.extend(self.compensation(outcome, result.as_ref().ok()));
        let command = self.command.clone();
        events.push(CommandCommitted { command, outcome, result: None, error: None, caught_up: true }.into());
        events.push(NodeFinished { command: self.command.clone() }.into());
        if outcome.is_complete() {
            events.push(self.step_committed(Some(invocation.key.clone())));
        }
        self.run.append(events, riders);
        result
    }

    pub(crate) fn step_committed(&self, key: Option<IdempotencyKey>) -> Event {
        StepCommitted { command: self.command.clone(), step: self.name.to_string(), key }.into()
    }

    pub(crate) fn invocation_finished(
        &self,
        outcome: Outcome,
        result: Option<Payload>,
        error: Option<Payload>,
    ) -> Event {
        ToolInvocationFinished {
            command: self.command.clone(),
            invocation: self.invocation(),
            outcome,
            result,
            error,
            caught_up: false,
        }
        .into()
    }

    /// The change of this attempt's ledger row. A row that is missing is not needed: the journal is the truth.
    pub(crate) fn ledger_update(
        &self,
        status: LedgerStatus,
        result: Option<Payload>,
        error: Option<Payload>,
    ) -> Option<LedgerUpdate> {
        let committed = status != LedgerStatus::InDoubt;
        self.in_ledger.then(|| LedgerUpdate { key: self.key(), status, result, error, committed })
    }
}

/// The outcome that a committed ledger row holds.
pub(crate) fn recorded_outcome(entry: LedgerEntry) -> (Outcome, Answered) {
    match (entry.status, entry.error) {
        (LedgerStatus::Failed, error) => {
            (Outcome::PermanentFailure, Err(error.unwrap_or_else(Payload::null)))
        }
        (_, Some(error)) if entry.result.is_none() => (Outcome::PermanentFailure, Err(error)),
        (_, _) => (Outcome::SideEffectCommitted, Ok(entry.result.unwrap_or_else(Payload::null))),
    }
}
