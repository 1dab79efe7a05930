//! What the effect gate appends when a step call has ended: one atomic append for each ending, with the ledger row's
//! change in the same transaction.
//!
//! Promise: a value stands once in a journal; `step_committed` is written on success only; an outcome with a large value
//! is durable in the effect store before it is appended.

use crate::confirm::Recovered;
use crate::effect_store::{Kept, StoredEffect, effect_events, final_outcome, has_large, large, returned};
use crate::event::{CommandCommitted, Event, NodeFinished, StepCommitted, ToolInvocationFinished};
use crate::failure::StepError;
use crate::id::IdempotencyKey;
use crate::journal::Frame;
use crate::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate};
use crate::outcome::Outcome;
use crate::payload::Answered;
use crate::payload::Payload;
use crate::perform::{Next, Performance};
use crate::policy::Mode;
use crate::replay::Invocation;
use crate::run::{Riders, Run};
use crate::store::StoreError;

impl Performance {
    /// What rides with the next append: the messages it takes in.
    pub(crate) fn riders(&mut self) -> Riders {
        Riders { consumed: std::mem::take(&mut self.consumed), ..Riders::default() }
    }

    /// The events after the body, one atomic append; `consumed` are inbox messages that it takes in.
    pub(crate) async fn commit_success(&mut self, value: Payload, consumed: Vec<u64>) -> Answered {
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
        self.end_attempt(events, riders).await;
        Ok(value)
    }

    /// A final failure. `ledger` is the invocation's status, if one was started.
    pub(crate) async fn commit_failure(
        &mut self,
        outcome: Outcome,
        error: &StepError<Payload>,
        ledger: Option<LedgerStatus>,
    ) -> Answered {
        let error = error.recorded();
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
        self.end_attempt(events, riders).await;
        Err(error)
    }

    /// Appends what an attempt ended with. With a large value in it, phase one comes first: the outcome is durable in
    /// the effect store under the attempt's key, and from then on a crash does not lose it.
    pub(crate) async fn end_attempt(&mut self, events: Vec<Event>, mut riders: Riders) {
        let run = &self.run;
        if run.mode != Mode::Verify && has_large(&events, run.host.limits.inline) {
            let _busy = run.busy();
            riders.kept = large(&events, run.host.limits.inline);
            let frame = match Frame::referring(&events, &riders.kept) {
                Ok(frame) => frame,
                Err(error) => return run.stop(unwritable(run, error)).await,
            };
            let status = riders.ledger.first().map(|update| update.status);
            let effect = StoredEffect { run: run.id.clone(), key: self.key(), frame, status };
            if let Err(error) = run.host.store.put_effect(effect, riders.kept.clone()).await {
                return run.stop(error).await;
            }
            riders.lighten();
        }
        self.run.append(events, riders);
    }

    /// The outcome that the effect store held for this attempt when the run was taken up, if it is this call's.
    pub(crate) async fn cut_off(&self) -> Option<(StoredEffect, Vec<Event>, Vec<Kept>)> {
        let effect = self.run.take_effect(|| self.key())?;
        let _busy = self.run.busy();
        match effect_events(&*self.run.host.store, &effect).await {
            Ok((events, kept)) => self.is_of_this_call(&events).then_some((effect, events, kept)),
            Err(error) => self.run.stop(error).await,
        }
    }

    fn is_of_this_call(&self, events: &[Event]) -> bool {
        events.iter().all(|event| match event {
            Event::NodeStarted(e) => e.digest == self.digest && e.class == self.options.class,
            _ => true,
        })
    }

    /// Phase two, after a crash between the two: appends an outcome that the effect store held. The body is not called.
    pub(crate) async fn adopt(
        &mut self,
        (effect, mut events, kept): (StoredEffect, Vec<Event>, Vec<Kept>),
    ) -> Next {
        let answered = final_outcome(&events);
        let row = if effect.status.is_some() { self.row(&effect.key).await } else { None };
        let recovered = Recovered { reported: &events, row: row.as_ref() };
        let confirmed = matches!(answered, Some(Ok(_))) && self.confirm(&recovered).await;
        events.retain(|event| !(self.started && matches!(event, Event::NodeStarted(_))));
        events.iter_mut().for_each(mark_caught_up);
        let mut riders = Riders { kept, ..Riders::default() };
        if let (Some(status), Some(_)) = (effect.status, row) {
            let (result, error) = match returned(&events) {
                Some(Ok(value)) => (Some(value), None),
                Some(Err(error)) => (None, Some(error)),
                None => (None, None),
            };
            let committed = status != LedgerStatus::InDoubt;
            let status = if confirmed { LedgerStatus::Confirmed } else { status };
            riders.ledger.push(LedgerUpdate { key: effect.key, status, result, error, committed });
            riders.lighten();
        }
        let due = events.iter().find_map(|event| match event {
            Event::StepRetried(e) => Some(e.due),
            _ => None,
        });
        self.started = true;
        self.run.append(events, riders);
        match (answered, due) {
            (Some(answered), _) => Next::Done(answered),
            (None, due) => {
                self.attempt = self.attempt.saturating_add(1);
                self.wait_until(due.unwrap_or(self.run.now())).await;
                Next::Again
            }
        }
    }

    pub(crate) fn failed(&self, outcome: Outcome, error: Option<Payload>) -> Event {
        CommandCommitted { command: self.command.clone(), outcome, result: None, error, caught_up: false }
            .into()
    }

    /// Takes over an outcome that was known before the crash; the body is not called. `row` is the ledger's, which may
    /// lag behind.
    pub(crate) async fn catch_up(
        &mut self,
        invocation: &Invocation,
        outcome: Outcome,
        result: Answered,
        row: Option<&LedgerEntry>,
    ) -> Answered {
        let confirmed = outcome.is_complete() && self.confirm(&Recovered { reported: &[], row }).await;
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
        if row.is_some_and(|row| !row.committed || (confirmed && row.status != LedgerStatus::Confirmed)) {
            let status = match &result {
                Ok(_) if confirmed => LedgerStatus::Confirmed,
                Ok(_) => LedgerStatus::Succeeded,
                Err(_) => LedgerStatus::Failed,
            };
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
        self.run.append_large(events, riders).await;
        result
    }

    /// The ledger's row under `key`.
    pub(crate) async fn row(&self, key: &IdempotencyKey) -> Option<LedgerEntry> {
        let _busy = self.run.busy();
        match self.run.host.store.entry(key).await {
            Ok(row) => row,
            Err(error) => self.run.stop(error).await,
        }
    }

    /// The outcome that a committed ledger row holds; its value may be in the effect store.
    pub(crate) async fn recorded(&self, row: &LedgerEntry) -> (Outcome, Answered) {
        let _busy = self.run.busy();
        let mut row = row.clone();
        let rows = std::slice::from_mut(&mut row);
        match crate::effect_store::complete(&*self.run.host.store, &self.run.id, rows).await {
            Ok(()) => recorded_outcome(row),
            Err(error) => self.run.stop(error).await,
        }
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

impl Run {
    /// Appends; large values go to the effect store first.
    pub(crate) async fn append_large(&self, events: Vec<Event>, mut riders: Riders) {
        riders.kept = self.keep(&events).await;
        if !riders.kept.is_empty() {
            riders.lighten();
        }
        self.append(events, riders);
    }

    /// As [`Run::append_large`], and waits until it is durable.
    pub(crate) async fn append_large_durably(&self, events: Vec<Event>) {
        let riders = Riders { kept: self.keep(&events).await, ..Riders::default() };
        self.append_durably(events, None, riders).await;
    }

    /// Puts the large values of `events` into the effect store.
    pub(crate) async fn keep(&self, events: &[Event]) -> Vec<Kept> {
        if self.mode == Mode::Verify || !has_large(events, self.host.limits.inline) {
            return Vec::new();
        }
        let kept = large(events, self.host.limits.inline);
        for Kept { value, at } in &kept {
            let _busy = self.occupied();
            if let Err(error) = self.host.store.put_blob(&at.sha256, value.as_str().into()).await {
                return self.stop(error).await;
            }
        }
        kept
    }
}

impl Riders {
    /// A value that is in the effect store is not repeated in the ledger: it is found there under the row's key.
    fn lighten(&mut self) {
        let kept = |value: &Option<Payload>| {
            value.as_ref().is_some_and(|value| self.kept.iter().any(|known| known.value == *value))
        };
        let light: Vec<_> = self.ledger.iter().map(|row| (kept(&row.result), kept(&row.error))).collect();
        for (row, (result, error)) in self.ledger.iter_mut().zip(light) {
            row.result.take_if(|_| result);
            row.error.take_if(|_| error);
        }
    }
}

fn unwritable(run: &Run, error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { store: "journal".into(), reason: format!("run `{}`: {error}", run.id) }
}

fn mark_caught_up(event: &mut Event) {
    match event {
        Event::ToolInvocationFinished(e) => e.caught_up = true,
        Event::CommandCommitted(e) => e.caught_up = true,
        _ => {}
    }
}

/// The outcome that a committed ledger row holds.
fn recorded_outcome(entry: LedgerEntry) -> (Outcome, Answered) {
    match (entry.status, entry.error) {
        (LedgerStatus::Failed, error) => {
            (Outcome::PermanentFailure, Err(error.unwrap_or_else(Payload::null)))
        }
        (_, Some(error)) if entry.result.is_none() => (Outcome::PermanentFailure, Err(error)),
        (_, _) => (Outcome::SideEffectCommitted, Ok(entry.result.unwrap_or_else(Payload::null))),
    }
}

#[cfg(test)]
mod tests;
