//! How a body ended, and the step error that follows from it.
//!
//! Promise: a panic, a timeout and a value that cannot be recorded are outcomes like any other.

use std::time::Duration;

use crate::definition::def::StepOptions;
use crate::run::claim::Run;
use crate::step::body::{BodyError, BodyResult};
use crate::vocabulary::budget::OverBudget;
use crate::vocabulary::deps::MissingDep;
use crate::vocabulary::failure::{StepError, panic_message};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::FailureClass;
use crate::vocabulary::payload::Payload;
use crate::vocabulary::redaction::Redaction;
use crate::vocabulary::waiting::TimeLimit;

/// How a body ended.
pub(crate) enum BodyOutcome {
    Value(Payload),
    Error(BodyError),
    /// Its value or error cannot be recorded, for this reason.
    Unrecordable(String),
    TimedOut,
    /// It sent no heartbeat in time.
    HeartbeatLost,
    /// It panicked, with this message.
    Panicked(String),
    /// It did what a body of its class must not do, and all of it was rolled back.
    Refused(String),
    /// It was cut off because the time of a budget was over.
    OverBudget(Box<OverBudget>),
    /// An external system will report the outcome, within the limit if there is one.
    Pending(Option<Duration>),
}

impl BodyOutcome {
    /// Whether it is the error that this value is missing, or one that tells it. An error type of the program's own keeps of
    /// it only the text. A body that says that something was done, or may have been, did not fail for this alone.
    pub(crate) fn is_lack_of(&self, missing: &MissingDep, redaction: &Redaction) -> bool {
        let Self::Error(BodyError { message, class, .. }) = self else { return false };
        let may_have_acted = matches!(class, FailureClass::Unknown | FailureClass::Compensatable);
        !may_have_acted && message.contains(&redaction.text(missing.to_string()))
    }
}

/// The step error of an attempt that gave no value; `exhausted` where it was the last of several.
pub(crate) fn error_of(
    run: &Run,
    command: &CommandId,
    options: &StepOptions,
    ended: BodyOutcome,
    exhausted: bool,
) -> StepError<Payload> {
    let failure = |reason: String| run.failure(command, reason);
    match ended {
        BodyOutcome::Error(error) if exhausted => StepError::Exhausted(error.error),
        BodyOutcome::Error(error) => StepError::App(error.error),
        BodyOutcome::HeartbeatLost => {
            let limit = TimeLimit::of_body(command.name(), options.heartbeat.unwrap_or_default());
            StepError::TimedOut(failure(no_heartbeat(options)).because_of(limit))
        }
        BodyOutcome::TimedOut => {
            let limit = options.timeout.unwrap_or_default();
            let passed = TimeLimit::of_body(command.name(), limit);
            StepError::TimedOut(failure(format!("no answer within {limit:?}")).because_of(passed))
        }
        BodyOutcome::OverBudget(over) => StepError::OverBudget(*over),
        BodyOutcome::Panicked(message) => StepError::Panicked(failure(message)),
        BodyOutcome::Refused(reason) => StepError::Rejected(failure(reason)),
        BodyOutcome::Unrecordable(reason) => StepError::Unrecordable(failure(reason)),
        BodyOutcome::Value(_) | BodyOutcome::Pending(_) => {
            StepError::Unrecordable(failure("the body gave no error".into()))
        }
    }
}

/// The reason given for a body that stopped sending heartbeats.
pub(crate) fn no_heartbeat(options: &StepOptions) -> String {
    format!("no heartbeat within {:?}", options.heartbeat.unwrap_or_default())
}

/// The outcome of a body that returned or panicked; a result that is too large is [`BodyOutcome::Unrecordable`].
pub(crate) fn body_outcome(
    run: &Run,
    ended: Result<BodyResult, Box<dyn std::any::Any + Send>>,
) -> BodyOutcome {
    let redaction = &run.shared.redaction;
    match ended {
        Ok(Ok(Ok(value))) => match run.too_large(&value) {
            Some(reason) => BodyOutcome::Unrecordable(reason),
            None => BodyOutcome::Value(redaction.value(value)),
        },
        Ok(Ok(Err(error))) => match run.error_too_large(&error) {
            Some(reason) => BodyOutcome::Unrecordable(reason),
            None => BodyOutcome::Error(BodyError {
                error: redaction.value(error.error),
                message: redaction.text(error.message),
                ..error
            }),
        },
        Ok(Err(error)) => BodyOutcome::Unrecordable(redaction.text(error.to_string())),
        Err(panic) => BodyOutcome::Panicked(redaction.text(panic_message(&*panic))),
    }
}
