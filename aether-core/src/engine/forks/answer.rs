//! Replacing a recorded answer in a fork.
//!
//! Promise: only the answer of the named command changes, and the journal of the fork says which one it was.

use crate::engine::forks::error::ForkError;
use crate::journal::event::{AnswerReplaced, Event};
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::{Digest, Payload, PayloadError};

/// Replaces the answer of `command` among the copied `events`.
pub(super) fn replace(
    events: &mut Vec<Event>,
    run: &RunId,
    command: &str,
    value: &Result<Payload, PayloadError>,
) -> Result<(), ForkError> {
    let refused = |why| ForkError::NoAnswer { run: run.clone(), command: command.into(), why };
    let value = value.clone().map_err(|error| ForkError::Answer { command: command.into(), error })?;
    let named = CommandId::from(command.to_owned());
    let mut about: Vec<_> = events.iter_mut().filter(|event| event.command() == Some(&named)).collect();
    if about.is_empty() {
        return Err(refused("it is not before the cut"));
    }
    if about.iter().any(|event| matches!(event, Event::ChildStarted(_))) {
        return Err(refused("it is the end of a child run"));
    }
    let mut old = None;
    for event in &mut about {
        if let Some(answer) = exchange(event, &value) {
            old = old.or(answer);
        }
    }
    let Some(digest) = old.as_ref().and_then(|old| Digest::of(old).ok()) else {
        return Err(refused("it holds no value of a step, a model, a plan or a wait"));
    };
    events.push(AnswerReplaced { origin: named, digest }.into());
    Ok(())
}

/// Puts `value` where the event holds an answer; `Some` where it is an answer, with what it held.
fn exchange(event: &mut Event, value: &Payload) -> Option<Option<Payload>> {
    match event {
        Event::CommandCommitted(e) => {
            let old = e.result.take().or(e.error.take());
            e.outcome = succeeded(e.outcome);
            // Said here whatever is said elsewhere: the end of the command counts.
            e.result = Some(value.clone());
            Some(old)
        }
        Event::ToolInvocationFinished(e) => {
            e.outcome = succeeded(e.outcome);
            let old = e.result.replace(value.clone()).or(e.error.take());
            e.error = None;
            Some(old)
        }
        Event::TransactionFinished(e) => {
            e.outcome = succeeded(e.outcome);
            let old = e.result.replace(value.clone()).or(e.error.take());
            e.error = None;
            Some(old)
        }
        Event::PlanGenerated(e) => Some(Some(std::mem::replace(&mut e.plan, value.clone()))),
        Event::WaitCompleted(e) => Some(e.value.replace(value.clone()).or_else(|| Some(Payload::null()))),
        // The value of an HTTP command, and of a model's that goes over HTTP.
        Event::HttpRecorded(e) => Some(Some(e.response.clone())),
        _ => None,
    }
}

/// The outcome of a call that has a value now.
const fn succeeded(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Pure | Outcome::Success | Outcome::SideEffectCommitted | Outcome::Compensated => outcome,
        Outcome::RetryableFailure | Outcome::PermanentFailure | Outcome::CompensatableFailure => {
            Outcome::Success
        }
    }
}
