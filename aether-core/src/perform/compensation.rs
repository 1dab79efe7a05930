//! What would undo a step call: found out when the step is committed, and recorded with its outcome.
//!
//! Promise: undoing depends on the journal and the undoing step alone, and not on the workflow's code.

use crate::journal::event::{CompensationRecorded, Event};
use crate::journal::obligations::undoes_another;
use crate::perform::call::StepCall;
use crate::step::body::Undo;
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::Payload;

impl StepCall {
    /// Keeps the call that would undo this one, and says so in the journal.
    pub(crate) fn compensation(&self, outcome: Outcome, value: Option<&Payload>) -> Option<Event> {
        let half_way = outcome == Outcome::CompensatableFailure;
        if !(outcome.is_complete() || half_way) {
            return None;
        }
        let (step, args) = match self.learn_undo(value)? {
            Ok(Undo { def, args, .. }) => (def.path.to_owned(), args.map_err(|error| error.to_string())),
            Err(problem) => (String::new(), Err(problem)),
        };
        let args = args.and_then(|args| self.run.too_large(&args).map_or(Ok(args), Err));
        let (args, problem) = match args {
            Ok(args) => (Some(args), None),
            Err(problem) => (None, Some(problem)),
        };
        let command = self.command.clone();
        Some(CompensationRecorded { command, step, args, problem, half_way }.into())
    }

    /// Finds out what would undo this call, and keeps it for as long as the run is advanced here.
    pub(crate) fn learn_undo(&self, value: Option<&Payload>) -> Option<Result<Undo, String>> {
        // What undoes a step is not undone.
        if !self.options.compensated || undoes_another(&self.command) {
            return None;
        }
        match self.ask_body(|body| body.compensation(&self.args, value)) {
            Ok(Some(undo)) => {
                self.run.remember_undo(&self.command, undo.clone());
                Some(Ok(undo))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error.to_string())),
        }
    }
}
