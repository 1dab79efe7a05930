//! What a journal holds, as text: recorded errors, and texts from outside on one line.

use std::fmt;

use crate::vocabulary::failure::StepError;
use crate::vocabulary::payload::Payload;

/// The text of a recorded error, whether it is a step error, a failure, or an error type of the program's own.
pub(super) fn error_text(error: &Payload) -> String {
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
        Ok(StepError::Taken(holder)) => holder.to_string(),
        Err(_) => own_text(error),
    }
}

fn own_text(error: &Payload) -> String {
    if let Ok(failure) = error.decode::<crate::vocabulary::failure::Failure>() {
        return failure.to_string();
    }
    error.decode::<String>().unwrap_or_else(|_| error.as_str().to_owned())
}

/// A text from outside, escaped so that it cannot end a line or move the cursor, and so cannot forge an entry.
pub(super) struct OneLine<'a>(pub(super) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\u{2028}' | '\u{2029}' => write!(f, "{}", c.escape_unicode()),
            c if c.is_control() => write!(f, "{}", c.escape_default()),
            c => write!(f, "{c}"),
        })
    }
}
