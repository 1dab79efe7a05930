//! How a body ended, and the step error that follows from it.
//!
//! Promise: a panic, a timeout and a value that cannot be recorded are outcomes like any other. An error that cannot be
//! recorded has the class that it had.

use std::time::Duration;

use crate::definition::def::StepOptions;
use crate::run::claim::Run;
use crate::step::body::{BodyError, BodyResult, ErrorClass};
use crate::vocabulary::budget::OverBudget;
use crate::vocabulary::deps::MissingDep;
use crate::vocabulary::failure::{StepError, panic_message};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::FailureClass;
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::vocabulary::redaction::Redaction;
use crate::vocabulary::waiting::TimeLimit;

/// How a body ended.
pub(crate) enum BodyOutcome {
    Value(Payload),
    Error(BodyError),
    /// What it ended with cannot be recorded, for this reason.
    Unrecordable(String, Lost),
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

/// What cannot be recorded of how a body ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lost {
    /// Its value: it has done what it does.
    Value,
    /// Its error, which says this of another attempt.
    Error(ErrorClass),
    /// Anything else: it may not even have been called.
    Other,
}

impl BodyOutcome {
    /// What it says of another attempt at a step with these options. Nothing, of a value.
    pub(crate) fn said(&self, options: &StepOptions) -> ErrorClass {
        let changes_world = options.class.changes_world();
        let class = match self {
            Self::Value(_) | Self::Pending(_) => FailureClass::Unclassified,
            Self::Error(error) => {
                return ErrorClass {
                    class: error.class,
                    retry_after: error.retry_after,
                    ..Default::default()
                };
            }
            // The error is lost, and not what it says of the world.
            Self::Unrecordable(_, Lost::Error(said)) => return *said,
            // It was done, and is to be undone like what was done half-way: without a value.
            Self::Unrecordable(_, Lost::Value) if changes_world && options.compensated => {
                FailureClass::Compensatable
            }
            Self::TimedOut | Self::HeartbeatLost if changes_world => FailureClass::Unknown,
            Self::TimedOut | Self::HeartbeatLost => FailureClass::Retryable,
            Self::Panicked(_) | Self::Unrecordable(..) | Self::Refused(_) | Self::OverBudget(_) => {
                FailureClass::Permanent
            }
        };
        ErrorClass { class, ..Default::default() }
    }

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
        BodyOutcome::Unrecordable(reason, Lost::Error(said)) => {
            StepError::Unrecordable(failure(reason).classified(said.class))
        }
        BodyOutcome::Unrecordable(reason, _) => StepError::Unrecordable(failure(reason)),
        BodyOutcome::Value(_) | BodyOutcome::Pending(_) => {
            StepError::Unrecordable(failure("the body gave no error".into()))
        }
    }
}

/// The reason given for a body that stopped sending heartbeats.
pub(crate) fn no_heartbeat(options: &StepOptions) -> String {
    format!("no heartbeat within {:?}", options.heartbeat.unwrap_or_default())
}

/// The outcome of a body that returned or panicked; what is too large is [`BodyOutcome::Unrecordable`].
pub(crate) fn body_outcome(
    run: &Run,
    ended: Result<BodyResult, Box<dyn std::any::Any + Send>>,
) -> BodyOutcome {
    let redaction = &run.shared.redaction;
    match ended {
        Ok(Ok(Ok(value))) => match run.too_large(&value) {
            Some(reason) => BodyOutcome::Unrecordable(reason, Lost::Value),
            None => BodyOutcome::Value(redaction.value(value)),
        },
        Ok(Ok(Err(error))) => match run.error_too_large(&error) {
            Some(reason) => {
                let said =
                    ErrorClass { class: error.class, retry_after: error.retry_after, ..Default::default() };
                BodyOutcome::Unrecordable(redaction.text(reason), Lost::Error(said))
            }
            None => BodyOutcome::Error(BodyError {
                error: redaction.value(error.error),
                message: redaction.text(error.message),
                ..error
            }),
        },
        Ok(Err(error)) => {
            let lost = match error {
                PayloadError::Error { class, retry_after, .. } => {
                    Lost::Error(ErrorClass { class, retry_after, ..Default::default() })
                }
                PayloadError::Encode { .. } | PayloadError::TooDeep { .. } => Lost::Value,
                _ => Lost::Other,
            };
            BodyOutcome::Unrecordable(redaction.text(error.to_string()), lost)
        }
        Err(panic) => BodyOutcome::Panicked(redaction.text(panic_message(&*panic))),
    }
}
