//! Outcomes that are known and that nobody asks for any more: the run ends, or their branch has lost a race.
//!
//! Promise: what stands in the journal or the effect store of a call that was cut off is committed in the append that says
//! how the run ends, or who won the race, with the call that would undo it; at the end of a run also what was reported to
//! its inbox. No body is called, and no workflow code is needed. An outcome that is damaged keeps no run from being cancelled
//! or terminated: it counts as unknown.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::inbox::topics::{callback_topic, resolution_topic};
use crate::journal::event::{CompensationRecorded, Event, TransactionFinished};
use crate::journal::history::History;
use crate::journal::history::record::CommandRecord;
use crate::journal::obligations::undoes_another;
use crate::perform::catch_up::as_caught_up;
use crate::perform::recorded_call::recorded_call;
use crate::perform::told_at_end::told;
use crate::perform::transact::committed;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::log;
use crate::store::append::StoredEffect;
use crate::store::error::StoreError;
use crate::store::read::effect_events;
use crate::vocabulary::id::{CommandId, IdempotencyKey, InvocationId};
use crate::vocabulary::outcome::Outcome;

/// What is known of calls that were cut off, as it is to be appended. Not in an append of its own: a crash behind that would
/// leave answers that the code was never handed, and what ended the run would look like other code.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) events: Vec<Event>,
    pub(crate) extras: AppendExtras,
}

impl Known {
    /// The commands that it is about.
    pub(crate) fn commands(&self) -> BTreeSet<CommandId> {
        self.events.iter().filter_map(Event::command).cloned().collect()
    }

    fn add(&mut self, events: Vec<Event>, extras: AppendExtras) {
        self.events.extend(events);
        self.extras = extras.behind(std::mem::take(&mut self.extras));
    }
}

/// What becomes of a call whose outcome is damaged in the effect store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damaged {
    /// Its run stops, and goes on when the outcome is restored.
    Stops,
    /// It counts as unknown: somebody wants the run to end.
    IsUnknown,
}

/// The outcomes that are known of calls that were cut off when the run ends. Nothing else of the run appends.
pub(crate) async fn known_at_end(run: &Arc<Run>, damaged: Damaged) -> Known {
    let mut known = known_of(run, damaged, |_| true).await;
    let commands = known.commands();
    let mut unsettled = run.with_obligations(|obligations| obligations.unsettled());
    unsettled.retain(|(command, _)| !undoes_another(command) && !commands.contains(command));
    if !unsettled.is_empty() {
        Box::pin(add_reports(run, unsettled, &mut known)).await;
    }
    known
}

/// What was reported, or resolved, of invocations without an outcome, and acknowledged: the code that waited for it is gone.
async fn add_reports(run: &Arc<Run>, mut open: Vec<(CommandId, InvocationId)>, known: &mut Known) {
    run.look_into_inbox().await;
    open.retain(|(_, invocation)| {
        run.has_message(&callback_topic(invocation)) || run.has_message(&resolution_topic(invocation))
    });
    if open.is_empty() {
        return;
    }
    let of = |command: &CommandId| open.iter().any(|(told, _)| told == command);
    let mut recorded = History::fold(run.recorded_of(of).await);
    for (command, _) in &open {
        let Some(record) = recorded.peek(command.place()).cloned() else { continue };
        if let Some((events, extras)) = told(run, &record).await {
            known.add(events, extras);
        }
    }
}

/// The outcomes that are known of those calls that were cut off for which `of` holds. Whoever made these calls is gone; other
/// branches may go on. What was handed to the store is durable by then, one way or the other.
pub(crate) async fn known_of(run: &Arc<Run>, damaged: Damaged, of: impl Fn(&CommandId) -> bool) -> Known {
    let (mut transactions, mut invocations) =
        run.with_obligations(|obligations| (obligations.transactions(), obligations.invocations()));
    // Not under the lock: whoever says which calls are meant may take it.
    transactions.retain(&of);
    // The undoing goes on with those that undo others.
    invocations.retain(|(command, _)| !undoes_another(command) && of(command));
    let mut known = Known::default();
    for came_back in run.came_back(&invocations) {
        invocations.retain(|(_, invocation)| *invocation != came_back.invocation);
        let (events, extras) = came_back.append();
        known.add(events, extras);
    }
    if !transactions.is_empty() {
        Box::pin(add_transactions(run, transactions, &mut known)).await;
    }
    if !invocations.is_empty() {
        let keys = invocations.iter().map(|(_, invocation)| run.key_of(invocation)).collect();
        Box::pin(add_effects(run, keys, damaged, &mut known)).await;
    }
    known
}

/// Transactions whose outcome was durable when they were cut off, or became so since. Their SQL is there.
async fn add_transactions(run: &Arc<Run>, open: BTreeSet<CommandId>, known: &mut Known) {
    // Read anew: of one that was handed to the store, and that nobody waited for, only the journal has the outcome.
    let recorded = run.recorded_of(|command| open.contains(command)).await;
    // In the order of their SQL: what was done last is undone first.
    let finished: Vec<_> = recorded.iter().filter_map(last_word).cloned().collect();
    let mut recorded = History::fold(recorded);
    for finished in finished {
        if let Some(record) = recorded.peek(finished.command.place()) {
            known.add(transaction_events(run, record, finished), AppendExtras::default());
        }
    }
}

/// One that is to be tried again left nothing behind, and its last word is not said.
fn last_word(event: &Event) -> Option<&TransactionFinished> {
    match event {
        Event::TransactionFinished(finished) => {
            Some(finished).filter(|finished| finished.outcome != Outcome::RetryableFailure)
        }
        _ => None,
    }
}

/// What follows a finished transaction, as its call would have appended it.
fn transaction_events(run: &Arc<Run>, record: &CommandRecord, finished: TransactionFinished) -> Vec<Event> {
    let TransactionFinished { command, outcome, result, changed, .. } = finished;
    let mut events: Vec<Event> = changed.into_iter().map(Event::from).collect();
    events.extend(match recorded_call(run, record) {
        Some(call) => call.compensation(outcome, result.as_ref()),
        None => unknown_compensation(record, outcome),
    });
    events.extend(committed(&command, command.name(), outcome, true));
    events
}

/// Of a step whose declaration is not at hand it is not known how it is undone, or whether: the end of the run is to name
/// it.
fn unknown_compensation(record: &CommandRecord, outcome: Outcome) -> Option<Event> {
    let half_way = outcome == Outcome::CompensatableFailure;
    let path = record.path.as_deref().unwrap_or_else(|| record.command.name());
    let problem = Some(format!(
        "step `{path}` is not linked into the program that ended the run, so it is not known how it is undone"
    ));
    let (command, step) = (record.command.clone(), String::new());
    (outcome.is_complete() || half_way)
        .then(|| CompensationRecorded { command, step, args: None, problem, half_way }.into())
}

/// Outcomes that the effect store has, or is about to have, of invocations with these keys that have none in the journal.
async fn add_effects(run: &Arc<Run>, open: Vec<IdempotencyKey>, damaged: Damaged, known: &mut Known) {
    // A row of which nothing is durable yet is no row.
    run.durable_so_far().await;
    run.save_again(&open).await;
    let mut effects = run.insist(|| run.shared.store.effects(&run.id)).await;
    effects.retain(|effect| open.contains(&effect.key));
    for effect in effects {
        add_effect(run, effect, damaged, known).await;
    }
}

/// Phase two of an outcome with a large value; see `StepCall::commit_stored_outcome`. Nobody is handed the outcome, so
/// what it has changed is not looked at.
async fn add_effect(run: &Arc<Run>, effect: StoredEffect, damaged: Damaged, known: &mut Known) {
    let read = run.asking(|| Box::pin(effect_events(&*run.shared.store, &effect))).await;
    let (mut events, stored) = match read {
        Ok(read) => read,
        Err(error @ StoreError::Corrupt { .. }) if damaged == Damaged::IsUnknown => {
            tracing::error!(target: log::RUN, run = %run.id, %error, "an outcome that is damaged counts as unknown");
            return;
        }
        Err(error) => return run.stop(error).await,
    };
    // That of an invocation never begins its command. It is of other code, which asked for something else in this place.
    if events.iter().any(|event| matches!(event, Event::NodeStarted(_))) {
        return;
    }
    let row = run.insist(|| run.shared.store.entry(&run.id, &effect.key)).await;
    // A row that holds a final outcome keeps it.
    let status = effect.status.filter(|_| row.is_some_and(|row| !row.committed));
    let extras = as_caught_up(&mut events, stored, effect.key, status);
    known.add(events, extras);
}
