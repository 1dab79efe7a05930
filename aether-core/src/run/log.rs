//! What the engine says of a run through `tracing`: one line for each change that an operator wants to know of.
//!
//! Promise: a line that follows from an event is written when the event is appended, so no replay repeats it. The end of a
//! run is told when it is durable. Arguments and results are never in a line; errors are.

use tracing::level_filters::LevelFilter;
use tracing::{Span, debug, error, info, warn};

use crate::journal::event::{CommandCommitted, Event, InvocationDecision, InvocationResolved};
use crate::run::claim::Run;
use crate::run::end::RunEnd;
use crate::vocabulary::error_text::error_text;
use crate::vocabulary::id::{CommandId, Position, RunId};
use crate::vocabulary::payload::Payload;

/// Target of lines about runs: how they start, wait and end.
pub(crate) const RUN: &str = "aether::run";
/// Target of lines about steps and their attempts.
pub(crate) const STEP: &str = "aether::step";
/// Target of lines about appends.
pub(crate) const STORE: &str = "aether::store";

/// The span around everything that a claim of a run does. At the level of errors, so that it is there wherever a line is.
/// Without a parent: a run outlives the request that starts it.
pub(crate) fn run_span(run: &Run) -> Span {
    tracing::error_span!(target: RUN, parent: None, "run", run = %run.id, workflow = run.def.name, epoch = run.epoch)
}

/// The span around a step call, from its first attempt in this process to its outcome.
pub(crate) fn step_span(command: &CommandId, step: &str) -> Span {
    tracing::error_span!(target: STEP, "step", step, %command)
}

/// The span around one call of a body.
pub(crate) fn attempt_span(attempt: u32) -> Span {
    tracing::error_span!(target: STEP, "attempt", attempt)
}

/// Says that a claim of `run` begins, whose journal has so many events.
pub(crate) fn begun(run: &Run, events: Position) {
    let (id, workflow, epoch) = (&run.id, run.def.name, run.epoch);
    if epoch == 1 {
        info!(target: RUN, run = %id, workflow, "run started");
    } else {
        info!(target: RUN, run = %id, workflow, epoch, events, "run resumed");
    }
}

/// Says what events of `run` mean that are being appended.
pub(crate) fn appended(run: &RunId, events: &[Event]) {
    if LevelFilter::current() == LevelFilter::OFF {
        return;
    }
    for event in events {
        match event {
            Event::CommandCommitted(committed) => step_ended(run, committed, events),
            Event::InvocationResolved(resolved) => decided(run, resolved),
            Event::InvocationAbandoned(e) => {
                let (command, invocation) = (&e.command, &e.invocation);
                warn!(target: STEP, %run, %command, %invocation,
                    "a call in flight is abandoned; its outcome is unknown");
            }
            Event::StepRetried(e) => {
                let (command, attempt, due, error) = (&e.command, e.attempt, e.due, error_text(&e.error));
                warn!(target: STEP, %run, %command, attempt, error, next_at = %due,
                    "an attempt failed; another one is due");
            }
            Event::TransactionFinished(e) => {
                // The line that says what follows from it has the error only where both are appended together.
                let follows =
                    |event: &Event| matches!(event, Event::CommandCommitted(c) if c.command == e.command);
                if let Some(error) = e.error.as_ref().filter(|_| !events.iter().any(follows)) {
                    let (command, error) = (&e.command, error_text(error));
                    warn!(target: STEP, %run, %command, error, "the body of a transaction returned an error");
                }
            }
            Event::TransactionRolledBack(e) => {
                let (command, attempt, reason) = (&e.command, e.attempt, &e.reason);
                warn!(target: STEP, %run, %command, attempt, reason, "a transaction was rolled back");
            }
            waits => waiting(run, waits),
        }
    }
}

fn step_ended(run: &RunId, committed: &CommandCommitted, events: &[Event]) {
    let CommandCommitted { command, outcome, error, .. } = committed;
    if outcome.is_complete() {
        debug!(target: STEP, %run, %command, outcome = outcome.as_str(), "step completed");
        return;
    }
    // Written once: with the invocation, where there was one.
    let error = error.as_ref().or_else(|| error_of(command, events)).map(error_text);
    warn!(target: STEP, %run, %command, outcome = outcome.as_str(), error, "step failed");
}

fn error_of<'a>(command: &CommandId, events: &'a [Event]) -> Option<&'a Payload> {
    events.iter().find_map(|event| match event {
        Event::ToolInvocationFinished(e) if e.command == *command => e.error.as_ref(),
        Event::TransactionFinished(e) if e.command == *command => e.error.as_ref(),
        _ => None,
    })
}

fn decided(run: &RunId, resolved: &InvocationResolved) {
    let InvocationResolved { command, invocation, actor, .. } = resolved;
    match resolved.decision {
        InvocationDecision::InDoubt => {
            warn!(target: STEP, %run, %command, %invocation, actor, "step in doubt: its outcome stays unknown");
        }
        InvocationDecision::Ask => {
            warn!(target: STEP, %run, %command, %invocation, actor, "step in doubt: an operator is asked");
        }
        InvocationDecision::Retry => {
            warn!(target: STEP, %run, %command, %invocation, actor, "step in doubt: called again under its key");
        }
        InvocationDecision::Happened => {
            info!(target: STEP, %run, %command, %invocation, actor, "a call of unknown outcome has happened");
        }
        InvocationDecision::DidNotHappen => {
            info!(target: STEP, %run, %command, %invocation, actor, "a call of unknown outcome did not happen");
        }
    }
}

/// A wait that begins. Without a time limit, `until` is empty.
fn waiting(run: &RunId, event: &Event) {
    let until = |until: Option<jiff::Timestamp>| until.map(tracing::field::display);
    match event {
        Event::TimerScheduled(e) => {
            info!(target: RUN, %run, command = %e.command, until = %e.due, "waiting for a timer");
        }
        Event::WaitStarted(e) => {
            let limit = until(e.until);
            info!(target: RUN, %run, command = %e.command, name = %e.name, until = limit, "waiting for a signal");
        }
        Event::ApprovalRequested(e) => {
            let limit = until(e.until);
            info!(target: RUN, %run, command = %e.command, until = limit, "waiting for a person");
        }
        Event::CallbackAwaited(e) => {
            let (limit, invocation) = (until(e.until), &e.invocation);
            info!(target: RUN, %run, command = %e.command, %invocation, until = limit, "waiting for a callback");
        }
        Event::ChildStarted(e) => {
            info!(target: RUN, %run, command = %e.command, child = %e.child, "child run started");
        }
        Event::RunUnwinding(_) => info!(target: RUN, %run, "the run ends; its steps are undone first"),
        _ => {}
    }
}

/// Says that a run was suspended.
pub(crate) fn suspended(run: &RunId, on: &[CommandId], until: Option<jiff::Timestamp>) {
    let until = until.map(tracing::field::display);
    debug!(target: RUN, %run, ?on, until, "run suspended; it lives only in the store");
}

/// Says how a run ended.
pub(crate) fn ended(run: &RunId, end: &RunEnd) {
    match end {
        RunEnd::Completed(_) => info!(target: RUN, %run, "run completed"),
        RunEnd::Failed { message, .. } => error!(target: RUN, %run, error = message, "run failed"),
        RunEnd::Cancelled { reason, actor, .. } => {
            info!(target: RUN, %run, reason, actor, "run cancelled");
        }
        RunEnd::Expired { at } => info!(target: RUN, %run, %at, "run expired before it began"),
        RunEnd::Terminated { reason, actor } => warn!(target: RUN, %run, reason, actor, "run terminated"),
        RunEnd::Stopped(_) => {}
    }
}
