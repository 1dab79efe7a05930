//! In a fork: a call whose recorded outcome is taken over from the origin.
//!
//! Promise: no body is called and no intent is made; what the origin recorded becomes this run's own record, and the call
//! that would undo it is recorded with it.

use crate::journal::event::{
    CommandCommitted, CompensationRecorded, Event, ForkDecided, NodeFinished, OutcomeKept, StateChanged,
};
use crate::perform::call::StepCall;
use crate::run::append::AppendExtras;
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::{Answered, Payload};

impl StepCall {
    /// Answers the call with the outcome of the one that `kept` tells of.
    pub(crate) async fn take_over(&mut self, kept: ForkDecided) -> Answered {
        let outcome = kept.outcome.unwrap_or(Outcome::PermanentFailure);
        self.take_recorded(Some(&kept.digest), kept.args.as_ref());
        let command = self.command.clone();
        let mut events = self.start_events();
        let taken = OutcomeKept { command: command.clone(), origin: kept.origin, digest: Some(kept.digest) };
        events.push(taken.into());
        let changed =
            kept.changed.into_iter().map(|changed| StateChanged { command: command.clone(), ..changed });
        events.extend(changed.map(Event::from));
        // Only to remember the call, and only as to who makes it.
        let _what_undoes_it_is_recorded = self.learn_undo(kept.result.as_ref());
        // None where the origin still answers for its steps. Never anew: a person may have edited the arguments of the call
        // that was made, and the code may undo such calls with others by now.
        if let Some(step) = kept.undo {
            let (args, half_way) = (kept.undo_args, outcome == Outcome::CompensatableFailure);
            let command = command.clone();
            events.push(CompensationRecorded { command, step, args, problem: None, half_way }.into());
        }
        let (result, error) = (kept.result, kept.error);
        events.push(
            CommandCommitted {
                command: command.clone(),
                outcome,
                result: result.clone(),
                error: error.clone(),
                caught_up: false,
                spent: None,
            }
            .into(),
        );
        events.push(NodeFinished { command }.into());
        if outcome.is_complete() {
            events.push(self.step_committed(kept.key));
        }
        self.run.append_large(events, AppendExtras::default()).await;
        match error {
            Some(error) => Err(error),
            None => Ok(result.unwrap_or_else(Payload::null)),
        }
    }
}
