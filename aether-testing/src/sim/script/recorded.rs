//! A recording as the script of a simulation: every body is answered with what its command got then.
//!
//! Promise: an answer goes only to the command that has its place, its name and its arguments; any other call ends the
//! simulation with an error that names the nearest one.

use std::collections::BTreeMap;

use aether_core::failure::{Failure, StepError};
use aether_core::id::{CommandId, RunId};
use aether_core::journal::event::{Event, SignalReceived, VersionMarked};
use aether_core::journal::history::CommandRecord;
use aether_core::journal::history::{History, RecordedResult};
use aether_core::outcome::{FailureClass, Outcome};
use aether_core::payload::{Digest, Payload};
use aether_core::recording::{Recording, RecordingError};
use aether_core::step::BodyCall;
use aether_core::step::BodyError;

use super::behaviour::Behaviour;
use crate::sim::report::error::SimError;
use crate::sim::report::journal::is_same_request;

/// What a recording answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedAnswers {
    commands: BTreeMap<(RunId, String), CommandRecord>,
    /// Scopes of branches that lost a race.
    races: Vec<(RunId, String, String)>,
    signals: Vec<SignalReceived>,
    marks: Vec<(RunId, VersionMarked)>,
}

impl RecordedAnswers {
    pub(crate) fn new(recording: &Recording) -> Result<Self, RecordingError> {
        let mut answers = Self::default();
        for (number, recorded) in recording.runs().iter().enumerate() {
            let (run, events) = (&recorded.run, recorded.events()?);
            for event in &events {
                match event {
                    Event::RaceDecided(e) => {
                        answers.races.push((run.clone(), e.command.place().to_owned(), e.winner.clone()));
                    }
                    Event::VersionMarked(e) => answers.marks.push((run.clone(), e.clone())),
                    Event::SignalReceived(e) if number == 0 => answers.signals.push(e.clone()),
                    _ => {}
                }
            }
            let places: Vec<_> =
                events.iter().filter_map(Event::command).map(|command| command.place().to_owned()).collect();
            let mut history = History::fold(events);
            for place in places {
                if let Some(found) = history.request(&place) {
                    answers.commands.insert((run.clone(), place), found.clone());
                }
            }
        }
        Ok(answers)
    }

    fn found(&self, run: &RunId, command: &CommandId) -> Option<&CommandRecord> {
        let found = self.commands.get(&(run.clone(), command.place().to_owned()))?;
        (found.command == *command).then_some(found)
    }

    /// A recorded clock reading, UUID or random value.
    pub(crate) fn draw(&self, run: &RunId, command: &CommandId) -> Option<RecordedResult> {
        self.found(run, command)?.answer.clone()
    }

    /// The version that the run had at a mark; `lowest` where it passed the place before the mark was there.
    pub(crate) fn version(&self, run: &RunId, mark: &CommandId, lowest: u32) -> u32 {
        let of_this_run = self.marks.iter().filter(|(of, _)| of == run).map(|(_, marked)| marked);
        let same = |marked: &&VersionMarked| {
            // A mark of the whole run has no number in its place, and counts wherever it is asked for.
            let of_the_run = mark.place().rsplit('.').next() == Some("v");
            marked.command == *mark || (of_the_run && marked.change == mark.name())
        };
        of_this_run.filter(same).map(|marked| marked.version).next().unwrap_or(lowest)
    }

    /// What a body's call is answered with.
    pub(crate) fn answer(&self, call: &BodyCall<'_>) -> Result<Behaviour, SimError> {
        let Some(found) = self.found(call.run, call.command) else {
            // What a losing branch asked for is not recorded, and never came back before the race was decided.
            return if self.lost(call) {
                Ok(Behaviour::Never)
            } else {
                Err(self.refusal(call, "is not recorded"))
            };
        };
        let is_same = |recorded: &Payload| is_same_request(call.command, recorded, call.args);
        let is_other = found.digest.is_some() && found.digest != Digest::of(call.args).ok();
        if is_other && !found.input.as_ref().is_some_and(is_same) {
            return Err(self.refusal(call, "was recorded with other arguments"));
        }
        match &found.answer {
            Some(RecordedResult::Step(Ok(value))) => Ok(Behaviour::fixed(Ok(Ok(value.clone())))),
            Some(RecordedResult::Step(Err(error))) => self.error(call, error, found.outcome),
            _ => Err(self.refusal(call, "was begun, and its outcome is not recorded")),
        }
    }

    /// A recorded step error, as the body that leads to it.
    fn error(
        &self,
        call: &BodyCall<'_>,
        error: &Payload,
        outcome: Option<Outcome>,
    ) -> Result<Behaviour, SimError> {
        let unreadable = |_| self.refusal(call, "was recorded with an error that cannot be played");
        let error: StepError<Payload> = error.decode().map_err(unreadable)?;
        let failed = |error: Payload, class| {
            let message = match error.decode::<Failure>() {
                Ok(failure) => failure.to_string(),
                Err(_) => error.as_str().to_owned(),
            };
            Behaviour::fixed(Ok(Err(BodyError { error, message, class, retry_after: None })))
        };
        match error {
            StepError::App(error) if outcome == Some(Outcome::CompensatableFailure) => {
                Ok(failed(error, FailureClass::Compensatable))
            }
            StepError::App(error) => Ok(failed(error, FailureClass::Permanent)),
            StepError::Exhausted(error) => Ok(failed(error, FailureClass::Retryable)),
            StepError::InDoubt(failure) if call.options.class.changes_world() => {
                let error = Payload::encode(&failure).map_err(SimError::Input)?;
                Ok(failed(error, FailureClass::Unknown))
            }
            StepError::TimedOut(_) if call.options.timeout.is_some() => Ok(Behaviour::Never),
            StepError::Panicked(failure) => {
                let message = failure.message().to_owned();
                Ok(Behaviour::stub(move |_, _| panic!("{message}")))
            }
            _ => Err(self.refusal(call, "was recorded with an error that no body leads to")),
        }
    }

    /// The signals that the run once took in.
    pub(crate) fn signals(&self) -> &[SignalReceived] {
        &self.signals
    }

    fn lost(&self, call: &BodyCall<'_>) -> bool {
        self.races.iter().any(|(run, race, winner)| {
            run == call.run && call.command.is_within(race) && !call.command.is_within(winner)
        })
    }

    fn refusal(&self, call: &BodyCall<'_>, what: &'static str) -> SimError {
        SimError::NotRecorded {
            run: call.run.clone(),
            command: call.command.clone(),
            args: call.args.clone(),
            what,
            nearest: self.nearest(call).unwrap_or_else(|| "nothing is recorded".into()),
        }
    }

    /// The recorded command that is most like the call: of its name first, then at its place, then close to it.
    fn nearest(&self, call: &BodyCall<'_>) -> Option<String> {
        let likeness = |run: &RunId, known: &CommandId| {
            let (place, asked) = (known.place(), call.command.place());
            let common = place.chars().zip(asked.chars()).take_while(|(known, asked)| known == asked).count();
            (known.name() == call.command.name(), run == call.run, place == asked, common)
        };
        let commands = self.commands.iter().filter(|(_, known)| known.digest.is_some());
        let nearest = commands.max_by_key(|((run, _), known)| likeness(run, &known.command));
        nearest.map(|((run, _), known)| {
            let input = known.input.as_ref().map_or("unrecorded arguments", Payload::as_str);
            let site = known.site.as_ref().map(|site| format!(" at {site}")).unwrap_or_default();
            format!("`{}` of run `{run}` with {input}{site}", known.command)
        })
    }
}
