//! Outcomes that are known when a run ends, and that nobody asks for any more.
//!
//! Promise: what stands in the journal or the effect store of a call that was cut off is committed before the run ends,
//! with the call that would undo it. No body is called, and no workflow code is needed.

use std::sync::Arc;

use crate::journal::event::{CompensationRecorded, Event, TransactionFinished};
use crate::journal::history::History;
use crate::journal::history::record::CommandRecord;
use crate::journal::obligations::undoes_another;
use crate::perform::approval::edited;
use crate::perform::attempts::step_call;
use crate::perform::call::{CallSpec, CountsIn, StepCall, any_answer};
use crate::perform::catch_up::as_caught_up;
use crate::perform::transact::committed;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::store::append::StoredEffect;
use crate::store::read::effect_events;
use crate::vocabulary::outcome::Outcome;

/// Commits the outcomes that are known of calls that were cut off. Whoever made these calls is gone, and nothing else of
/// the run appends.
pub(crate) async fn commit_known(run: &Arc<Run>) {
    commit_transactions(run).await;
    commit_effects(run).await;
}

/// Commits transactions whose outcome was durable when they were cut off, or became so since. Their SQL is there.
async fn commit_transactions(run: &Arc<Run>) {
    let open = run.with_obligations(|obligations| obligations.transactions());
    if open.is_empty() {
        return;
    }
    // Read anew: of one that was handed to the store, and that nobody waited for, only the journal has the outcome.
    let mut recorded = History::fold(run.recorded_of(|command| open.contains(command)).await);
    for command in &open {
        let Some(record) = recorded.peek(command.place()).cloned() else { continue };
        let finished = record.details().transaction.clone();
        // One that is to be tried again left nothing behind, and its last word is not said.
        if let Some(finished) = finished.filter(|finished| finished.outcome != Outcome::RetryableFailure) {
            run.append(transaction_events(run, &record, finished), AppendExtras::default());
        }
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

/// The call that is recorded, by the declaration of its step; `None` where that is not linked.
fn recorded_call(run: &Arc<Run>, record: &CommandRecord) -> Option<StepCall> {
    let step = run.shared.steps.get(record.path.as_deref()?)?;
    let call = CallSpec {
        name: step.def.name.into(),
        path: step.def.path.into(),
        options: step.def.options,
        args: Ok(edited(record).or_else(|| record.input.clone())?),
        body: step.body(),
        readable: any_answer,
        counts_in: CountsIn::Nothing,
        limit: None,
    };
    step_call(run, record.command.clone(), None, call).ok()
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

/// Commits outcomes that the effect store has of invocations without one in the journal.
async fn commit_effects(run: &Arc<Run>) {
    let mut open = run.with_obligations(|obligations| obligations.invocations());
    // The undoing goes on with those.
    open.retain(|(command, _)| !undoes_another(command));
    if open.is_empty() {
        return;
    }
    // A row of which nothing is durable yet is no row.
    run.durable_so_far().await;
    let mut effects = run.insist(|| run.shared.store.effects(&run.id)).await;
    effects.retain(|effect| open.iter().any(|(_, invocation)| run.key_of(invocation) == effect.key));
    for effect in effects {
        commit_effect(run, effect).await;
    }
}

/// Phase two of an outcome with a large value; see [`StepCall::commit_stored_outcome`]. Nobody is handed the outcome, so
/// what it has changed is not looked at.
async fn commit_effect(run: &Arc<Run>, effect: StoredEffect) {
    let (mut events, stored) = match effect_events(&*run.shared.store, &effect).await {
        Ok(read) => read,
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
    run.append(events, extras);
}
