//! Whether the caller of a step can read the answer that the step gave.
//!
//! Promise: an answer that the code which made it cannot read is a step error, of which the journal says so in the append
//! that holds the answer. What is recorded without that was readable, so it is never turned into an error later.

use crate::journal::event::{Event, ResultUnreadable};
use crate::perform::call::{StepCall, ask_in_net};
use crate::vocabulary::failure::StepError;
use crate::vocabulary::payload::{Answered, Payload};

impl StepCall {
    /// Adds to the events of a new answer that its caller cannot read it, where that is so; returns what the caller gets.
    pub(crate) fn check_read(&self, answered: Answered, events: &mut Vec<Event>) -> Answered {
        match self.unreadable(&answered) {
            None => answered,
            Some(reason) => {
                let answered = Err(self.not_read(&reason));
                events.push(ResultUnreadable { command: self.command.clone(), reason }.into());
                answered
            }
        }
    }

    /// Why the caller cannot read an answer, where it cannot.
    pub(crate) fn unreadable(&self, answered: &Answered) -> Option<String> {
        ask_in_net(&self.path, || (self.readable)(answered)).err().map(|error| error.to_string())
    }

    /// The error of a step whose answer its caller could not read when it was new.
    pub(crate) fn not_read(&self, reason: &str) -> Payload {
        let why = format_args!("the result does not round-trip: {reason}");
        StepError::Unrecordable(self.run.failure(&self.command, why)).recorded()
    }
}
