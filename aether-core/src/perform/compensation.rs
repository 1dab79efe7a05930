//! The call that would undo a step call: determined when the step is committed, and recorded with its outcome.
//!
//! Promise: undoing depends only on the journal and the undoing step, and not on the workflow's code.

use crate::journal::event::{CompensationRecorded, Event};
use crate::journal::obligations::undoes_another;
use crate::perform::call::StepCall;
use crate::step::body::Undo;
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::Payload;

impl StepCall {
    /// The event that records the call that would undo this one, where there is such a call.
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

    /// Determines the call that would undo this one, and remembers it for as long as this process advances the run.
    pub(crate) fn learn_undo(&self, value: Option<&Payload>) -> Option<Result<Undo, String>> {
        // A compensation is not undone itself.
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
