//! Outcomes that were known before a crash: they are in the ledger or the effect store, and not yet in the journal.
//!
//! Promise: such an outcome is committed without calling the body again.

use crate::journal::event::{CommandCommitted, Event, NodeFinished, ToolInvocationFinished};
use crate::journal::history::record::Invocation;
use crate::journal::large_values::{LargeValue, final_outcome, returned};
use crate::perform::call::{Next, StepCall};
use crate::perform::confirm::Recovered;
use crate::run::append::AppendExtras;
use crate::store::append::StoredEffect;
use crate::store::ledger::{LedgerEntry, LedgerStatus, LedgerUpdate};
use crate::store::read::effect_events;
use crate::store::streams::kept_of;
use crate::vocabulary::id::IdempotencyKey;
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::Answered;

impl StepCall {
    /// Commits the outcome that the effect store held for this attempt when the run was claimed, if it belongs to this
    /// call.
    pub(crate) async fn catch_up(&mut self) -> Option<Next> {
        let effect = self.run.take_effect(|| self.key())?;
        Box::pin(self.commit_if_own(effect)).await
    }

    async fn commit_if_own(&mut self, effect: StoredEffect) -> Option<Next> {
        let stored = self.take_stored_outcome(effect).await?;
        Some(self.commit_stored_outcome(stored).await)
    }

    /// What a stored outcome consists of, if it belongs to this call.
    async fn take_stored_outcome(
        &mut self,
        effect: StoredEffect,
    ) -> Option<(StoredEffect, Vec<Event>, Vec<LargeValue>)> {
        let _in_flight = self.run.in_flight();
        let store = &*self.run.shared.store;
        let (events, stored) = self.run.insist(|| Box::pin(effect_events(store, &effect))).await;
        self.is_of_this_call(&events).then_some((effect, events, stored))
    }

    /// The key names run, command and attempt. Code that was changed before `node_started` was durable may ask for
    /// something else under the same key: then the outcome is not an answer to this call.
    fn is_of_this_call(&mut self, events: &[Event]) -> bool {
        let started = events.iter().find_map(|event| match event {
            Event::NodeStarted(e) => Some(e),
            _ => None,
        });
        let Some(started) = started else { return true };
        let is_same = started.class == self.options.class
            && (started.digest == self.digest
                || started.input.as_ref().is_some_and(|input| self.is_asked(input)));
        if is_same {
            self.take_recorded(Some(&started.digest), started.input.as_ref());
        }
        is_same
    }

    /// Phase two of an outcome with a large value, after a crash between the phases. Phase one, in
    /// [`StepCall::end_attempt`], made the outcome durable in the effect store; this appends it to the journal. The body
    /// is not called: it has run, and its result is known.
    async fn commit_stored_outcome(
        &mut self,
        (effect, mut events, stored): (StoredEffect, Vec<Event>, Vec<LargeValue>),
    ) -> Next {
        let unreadable = events.iter().find_map(|event| match event {
            Event::ResultUnreadable(e) => Some(self.not_read(&e.reason)),
            _ => None,
        });
        let (answered, keeps) = (final_outcome(&events), kept_of(&effect.frame.text));
        let row = if effect.status.is_some() { self.row(&effect.key).await } else { None };
        let recovered = Recovered { reported: &events, row: row.as_ref() };
        // Before the append: a resource that has changed since may fail the run, and the workflow must not see the
        // outcome then.
        let confirmed = matches!(answered, Some(Ok(_))) && self.confirm(&recovered).await;
        // The journal may hold `node_started` already; it is written once.
        events.retain(|event| !(self.started && matches!(event, Event::NodeStarted(_))));
        // Only a row that exists: an update of a missing one would make the store refuse the whole append.
        let status = effect.status.filter(|_| row.is_some());
        let status = status.map(|status| if confirmed { LedgerStatus::Confirmed } else { status });
        let mut extras = as_caught_up(&mut events, stored, effect.key, status);
        let retried = events.iter().find_map(|event| match event {
            Event::StepRetried(e) => Some(e),
            _ => None,
        });
        retried.into_iter().for_each(|retried| self.failures.add(retried));
        let due = retried.map(|retried| retried.due);
        self.started = true;
        if let Some(answered) = &answered {
            self.end_streams_but(keeps, answered, &mut extras);
        }
        self.run.append(events, extras);
        match (answered, due) {
            (Some(answered), _) => Next::Done(unreadable.map_or(answered, Err)),
            (None, due) => {
                self.attempt = self.attempt.saturating_add(1);
                self.wait_until(due.unwrap_or(self.run.now())).await;
                Next::Again
            }
        }
    }

    /// Commits an outcome that was known before the crash. The body is not called. `row` is the ledger's row, which may be
    /// behind the journal or ahead of it.
    pub(crate) async fn commit_known_outcome(
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
        let mut extras = AppendExtras::default();
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
            extras.ledger.push(LedgerUpdate { key, status, result: value, error, committed: true });
        }
        events.extend(self.compensation(outcome, result.as_ref().ok()));
        let command = self.command.clone();
        events.push(
            CommandCommitted { command, outcome, result: None, error: None, caught_up: true, spent: None }
                .into(),
        );
        events.push(NodeFinished { command: self.command.clone() }.into());
        if outcome.is_complete() {
            events.push(self.step_committed(Some(invocation.key.clone())));
        }
        // An outcome in the journal was made before, perhaps by other code, to which it was readable.
        let answered = match invocation.finished {
            None => self.check_read(result, &mut events),
            Some(_) => result,
        };
        self.end_streams(&answered, &mut extras);
        self.run.append_large(events, extras).await;
        answered
    }
}

/// Marks the events of a stored outcome as caught up. Returns what is written with them: the values that they refer to, and
/// the ledger row under `key`, where it gets a `status`.
pub(crate) fn as_caught_up(
    events: &mut [Event],
    stored: Vec<LargeValue>,
    key: IdempotencyKey,
    status: Option<LedgerStatus>,
) -> AppendExtras {
    events.iter_mut().for_each(mark_caught_up);
    let mut extras = AppendExtras { stored, ..AppendExtras::default() };
    if let Some(status) = status {
        let (result, error) = match returned(events) {
            Some(Ok(value)) => (Some(value), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        let committed = status != LedgerStatus::InDoubt;
        extras.ledger.push(LedgerUpdate { key, status, result, error, committed });
        extras.drop_stored_values();
    }
    extras
}

fn mark_caught_up(event: &mut Event) {
    match event {
        Event::ToolInvocationFinished(e) => e.caught_up = true,
        Event::CommandCommitted(e) => e.caught_up = true,
        _ => {}
    }
}
