//! A recorded error as text.
//!
//! Promise: whatever the error is, there is a text of it.

use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::payload::Payload;

/// The text of a recorded error, whether it is a step error, a failure, or an error type of the program's own.
pub(crate) fn error_text(error: &Payload) -> String {
    match error.decode::<StepError<Payload>>() {
        Ok(StepError::App(own) | StepError::Exhausted(own)) => own_text(&own),
        Ok(
            StepError::TimedOut(failure)
            | StepError::Rejected(failure)
            | StepError::InDoubt(failure)
            | StepError::Cancelled(failure)
            | StepError::Panicked(failure)
            | StepError::Unrecordable(failure),
        ) => failure.to_string(),
        Ok(StepError::OverBudget(over)) => over.to_string(),
        Ok(StepError::Taken(holder)) => holder.to_string(),
        Err(_) => own_text(error),
    }
}

fn own_text(error: &Payload) -> String {
    if let Ok(failure) = error.decode::<Failure>() {
        return failure.to_string();
    }
    error.decode::<String>().unwrap_or_else(|_| error.as_str().to_owned())
}
