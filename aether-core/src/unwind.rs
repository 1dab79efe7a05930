//! Undoing committed steps: at the end of a run that did not succeed, or in the workflow's code.
//!
//! Promise: steps are undone in the reverse order of their commitment, each by a recorded step of its own; one that
//! cannot be undone does not stop the others; a crash in between goes on where it was, without workflow code.

use std::sync::Arc;

use crate::contract::Constraints;
use crate::cx::Cx;
use crate::def::StepDef;
use crate::event::{
    CommandCommitted, CompensationRecorded, Event, NodeFinished, NodeStarted, StepCommitted, StepCompensated,
    Uncompensated,
};
use crate::failure::StepError;
use crate::fault::Fault;
use crate::gate::BoxEffect;
use crate::id::CommandId;
use crate::obligations::{COMPENSATE, Owed, undoes_another};
use crate::outcome::{EffectClass, Outcome};
use crate::payload::Answered;
use crate::payload::{Digest, Payload};
use crate::perform::{Call, Performance, perform};
use crate::run::{Matched, Riders, Run};
use crate::step::{Body, Completion, Undo};
use crate::store::StoreError;

impl Performance {
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
        match self.body.compensation(&self.args, value) {
            Ok(Some(undo)) => {
                self.run.remember_undo(&self.command, undo.clone());
                Some(Ok(undo))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error.to_string())),
        }
    }
}

/// Undoes what the run's end asks for: in place of the workflow, in a turn of its own.
pub(crate) async fn unwind(run: Arc<Run>) -> Completion {
    for undoes in run.owes(|owed| owed.plan()) {
        undo(&run, &undoes).await;
    }
    Ok(Ok(Payload::null()))
}

/// Undoes one step.
async fn undo(run: &Arc<Run>, undoes: &CommandId) {
    let Some(owed) = run.owes(|owes| owes.owed(undoes).cloned()) else { return };
    let (def, body) = match undoing_step(run, &owed) {
        Some(found) => found,
        None if owed.step.is_empty() => {
            return give_up(run, &owed, UNKNOWN);
        }
        None => {
            let (run_id, command, step) = (run.id.clone(), undoes.clone(), owed.step.clone());
            return run.stop(Fault::StepNotLinked { run: run_id, command, step }).await;
        }
    };
    let Ok(args) = owed.args.clone() else { return give_up(run, &owed, def.name) };
    let command = CommandId::new(&owed.place(), def.name);
    let call =
        Call { name: def.name.into(), path: def.path.into(), options: def.options, args: Ok(args), body };
    let answered: Answered = perform(Arc::clone(run), command.clone(), None, call).await;
    match answered {
        Ok(_) if run.owes(|owes| owes.is_undone(undoes)) => {}
        Ok(_) => {
            let undone = StepCompensated { command, undoes: undoes.clone() };
            run.append(vec![undone.into()], Riders::default());
        }
        // Also where nothing was recorded: the arguments were refused.
        Err(error) => run.owes(|owes| owes.give_up(undoes, &command, &error)),
    }
}

/// Stands for the name of a step that could not even be named.
const UNKNOWN: &str = "compensation";

/// A step whose undoing call could not be recorded when it was committed.
fn give_up(run: &Run, owed: &Owed, name: &str) {
    let problem = owed.args.as_ref().err().cloned().unwrap_or_default();
    let command = CommandId::new(&owed.place(), name);
    let error = StepError::Unrecordable(run.failure(&command, problem)).recorded();
    run.owes(|owes| owes.give_up(&owed.undoes, &command, &error));
}

fn undoing_step(run: &Run, owed: &Owed) -> Option<(&'static StepDef, Arc<dyn Body>)> {
    match run.undo_of(&owed.undoes) {
        Some(undo) => Some((undo.def, undo.body)),
        None => run.host.steps.get(owed.step.as_str()).map(|step| (step.def, step.body())),
    }
}

impl Cx {
    /// Undoes every compensated step of this run that was committed so far, the last one first, and goes on. Returns
    /// the steps that could not be undone; they are in the run's end too, and are not tried again.
    ///
    /// ```
    /// # use aether_core::cx::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let left = cx.compensate().await;
    /// assert!(left.is_empty(), "{left:?}");
    /// # }
    /// ```
    pub fn compensate(&mut self) -> BoxEffect<'_, Vec<Uncompensated>> {
        let mut ticket = self.ticket(COMPENSATE);
        BoxEffect::boxed(async move {
            let site = ticket.enter().await;
            let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
            let (listed, answered) = match run.request(&command, EffectClass::Pure, None, site.clone()).await
            {
                Matched::Answered => (run.recorded_input(&command), true),
                Matched::Begun(record) => (record.input, false),
                Matched::New => (None, false),
            };
            let listed = match listed.map(|input| input.decode::<Vec<CommandId>>()) {
                Some(Ok(listed)) => listed,
                Some(Err(_)) => return run.mismatched(&command, EffectClass::Pure, None).await,
                None => {
                    run.frontier(&command).await;
                    list(&run, &command, site).await
                }
            };
            for undoes in &listed {
                undo(&run, undoes).await;
            }
            let left = left_of(&run, &listed);
            if answered {
                // Its answer comes after those of the compensations.
                run.turn(&command).await;
            } else {
                run.frontier(&command).await;
                end(&run, &command, &left);
            }
            left
        })
    }
}

/// Records which steps are to be undone.
async fn list(run: &Run, command: &CommandId, site: Option<String>) -> Vec<CommandId> {
    let listed = run.owes(|owes| owes.pending(false));
    let recorded = Payload::encode(&listed).and_then(|input| Ok((Digest::of(&input)?, input)));
    let (digest, input) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            let store = run.host.store.describe();
            return run.stop(StoreError::Corrupt { store, reason: error.to_string() }).await;
        }
    };
    let (command, class) = (command.clone(), EffectClass::Pure);
    let started =
        NodeStarted { command, class, digest, input: Some(input), site, constraints: Constraints::default() };
    run.append(vec![started.into()], Riders::default());
    listed
}

fn left_of(run: &Run, listed: &[CommandId]) -> Vec<Uncompensated> {
    let left = run.owes(|owes| owes.uncompensated());
    left.into_iter().filter(|left| listed.contains(&left.step)).collect()
}

fn end(run: &Run, command: &CommandId, left: &[Uncompensated]) {
    let command = command.clone();
    let result = Payload::encode(left).ok();
    let committed = CommandCommitted {
        command: command.clone(),
        outcome: Outcome::Success,
        result,
        error: None,
        caught_up: false,
    };
    let finished = NodeFinished { command: command.clone() };
    let complete = StepCommitted { command, step: COMPENSATE.into(), key: None };
    run.append(vec![committed.into(), finished.into(), complete.into()], Riders::default());
}
