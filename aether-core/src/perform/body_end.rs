//! How a body came back, and the step error that follows from it.

use std::time::Duration;

use crate::definition::def::StepOptions;
use crate::run::claim::Run;
use crate::step::body::{BodyError, BodyResult};
use crate::vocabulary::failure::{StepError, panic_message};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::payload::Payload;

/// How a body came back.
pub(crate) enum Ended {
    Value(Payload),
    Error(BodyError),
    Unrecordable(String),
    TimedOut,
    /// It gave no sign of life.
    Silent,
    Panicked(String),
    /// It did what a body of its class must not do, and nothing of it is left.
    Refused(String),
    /// Somebody outside will report the outcome, within the limit if there is one.
    Pending(Option<Duration>),
}

/// The step error of an attempt that gave no value; `exhausted` where it was the last of several.
pub(crate) fn error_of(
    run: &Run,
    command: &CommandId,
    options: &StepOptions,
    ended: Ended,
    exhausted: bool,
) -> StepError<Payload> {
    let failure = |reason: String| run.failure(command, reason);
    match ended {
        Ended::Error(error) if exhausted => StepError::Exhausted(error.error),
        Ended::Error(error) => StepError::App(error.error),
        Ended::Silent => StepError::TimedOut(failure(no_heartbeat(options))),
        Ended::TimedOut => {
            let limit = options.timeout.unwrap_or_default();
            StepError::TimedOut(failure(format!("no answer within {limit:?}")))
        }
        Ended::Panicked(message) => StepError::Panicked(failure(message)),
        Ended::Refused(reason) => StepError::Rejected(failure(reason)),
        Ended::Unrecordable(reason) => StepError::Unrecordable(failure(reason)),
        Ended::Value(_) | Ended::Pending(_) => {
            StepError::Unrecordable(failure("the body gave no error".into()))
        }
    }
}

/// What is said of a body that fell silent.
pub(crate) fn no_heartbeat(options: &StepOptions) -> String {
    format!("no heartbeat within {:?}", options.heartbeat.unwrap_or_default())
}

/// What a body came back with, as far as it can be recorded.
pub(crate) fn ended_with(run: &Run, ended: Result<BodyResult, Box<dyn std::any::Any + Send>>) -> Ended {
    match ended {
        Ok(Ok(Ok(value))) => match run.too_large(&value) {
            Some(reason) => Ended::Unrecordable(reason),
            None => Ended::Value(value),
        },
        Ok(Ok(Err(error))) => match run.error_too_large(&error) {
            Some(reason) => Ended::Unrecordable(reason),
            None => Ended::Error(error),
        },
        Ok(Err(error)) => Ended::Unrecordable(error.to_string()),
        Err(panic) => Ended::Panicked(panic_message(&*panic)),
    }
}
