//! Undoing one step call, by a recorded call of the step that undoes it.
//!
//! Promise: a step is undone once; one that cannot be undone does not stop the others.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::definition::def::StepDef;
use crate::journal::event::{NodeStarted, StepCompensated};
use crate::journal::history::History;
use crate::journal::history::record::CommandRecord;
use crate::journal::obligations::{PendingCompensation, without_open_questions};
use crate::perform::attempts::execute_step;
use crate::perform::call::{CallSpec, CountsIn, any_answer, ask_in_net};
use crate::policy::replay::Mode;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::shared::EngineShared;
use crate::run::unreadable::Unreadable;
use crate::sched::mutated;
use crate::step::body::Body;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::Answered;

/// Undoes one step, for the command `by` of `cx.compensate()` or for the run's end. Of several that ask for it, in branches
/// that run side by side, one does it and the others wait for it; if that one is dropped, the next goes on with it.
pub(crate) async fn undo(run: &Arc<Run>, undoes: &CommandId, by: Option<&CommandId>) {
    if mutated("undone-by-each-branch") {
        return undo_one(run, undoes, by, false).await;
    }
    let undoing = run.undoing(undoes);
    let undone = || undo_one(run, undoes, by, undoing.is_begun.swap(true, Ordering::AcqRel));
    undoing.is_done.get_or_init(undone).await;
}

/// `was_begun`: by a branch of this process that was dropped since.
async fn undo_one(run: &Arc<Run>, undoes: &CommandId, by: Option<&CommandId>, was_begun: bool) {
    let Some(pending) = run.with_obligations(|obligations| obligations.compensation_of(undoes).cloned())
    else {
        return;
    };
    let (def, body) = match undoing_step(run, &pending) {
        Some(found) => found,
        None if pending.step.is_empty() => {
            return give_up(run, &pending, UNKNOWN);
        }
        None => {
            let (run_id, command, step) = (run.id.clone(), undoes.clone(), pending.step.clone());
            return run.stop(Fault::StepNotLinked { run: run_id, command, step }).await;
        }
    };
    let Ok(args) = pending.args.clone() else { return give_up(run, &pending, def.name) };
    let command = CommandId::new(&pending.place(), def.name);
    let is_begun = run.recorded(&command).is_some_and(|record| record.started || record.answer.is_some());
    if !is_begun && (!pending.is_open() || pending.has_returned()) {
        // By a branch that lost a race since, or by a process that died before it said so.
        if pending.is_open() {
            run.wait_for_frontier(&command).await;
            record_undone(run, command, undoes);
        }
        return;
    }
    if let Some(by) = by {
        run.note_undoer(&command, by);
    }
    let is_replayed = run.has_answer(&command) || by.is_some_and(|by| run.has_answer(by));
    let goes_on = !is_replayed && !mutated("goes-on-from-nothing");
    if goes_on && (was_begun || by.is_some() && pending.was_begun_by_another(by)) {
        Box::pin(go_on_with(run, undoes, &command)).await;
    }
    // Recorded when the step was committed, perhaps by other code. The world waits to be undone: not a failure of that.
    if !run.has_answer(&command)
        && let Err(error) = ask_in_net(def.path, || body.check(&args))
    {
        return run.unreadable(&command, ARGUMENTS, (None, Some(line_of(def))), error).await;
    }
    let call = CallSpec {
        name: def.name.into(),
        path: def.path.into(),
        options: def.options,
        args: Ok(args),
        body,
        readable: any_answer,
        counts_in: CountsIn::Nothing,
        limit: None,
    };
    let answered: Answered = execute_step(run, command.clone(), None, call).await;
    match answered {
        Ok(_) if run.with_obligations(|obligations| obligations.is_undone(undoes)) => {}
        Ok(_) => record_undone(run, command, undoes),
        // Also where nothing was recorded, because the arguments were refused.
        Err(error) => run.with_obligations(|obligations| obligations.give_up(undoes, &command, &error)),
    }
}

/// Records that a step is undone.
fn record_undone(run: &Run, command: CommandId, undoes: &CommandId) {
    if run.mode != Mode::Verify {
        let undone = StepCompensated { command, undoes: undoes.clone() };
        run.append(vec![undone.into()], AppendExtras::default());
    }
}

/// Another branch may have begun this call, in this process, in a former one or in an earlier generation, and be gone: what
/// is recorded of it by now counts, its attempts and the consent that it has.
async fn go_on_with(run: &Arc<Run>, undoes: &CommandId, command: &CommandId) {
    // It is asked for from here on: whoever began it may be waiting for this call of it.
    let _not_answered = run.peek(command);
    run.wait_for_frontier(command).await;
    if run.mode == Mode::Verify {
        return;
    }
    let _in_flight = run.in_flight();
    // The race that dropped it may be about to say what became of its calls.
    run.deciding.is_over().await;
    if let Err(fault) = run.settle_uncalled(command).await {
        return run.stop(fault).await;
    }
    let begun_before = run.with_obligations(|obligations| obligations.begun_before(undoes));
    if !begun_before.is_empty() {
        run.append_large_durably(begun_before).await;
    }
    let recorded = run.recorded_of(|of| of == command).await;
    let mut history = History::fold(without_open_questions(recorded));
    if let Some(record) = history.peek(command.place()) {
        run.bring_up_to_date(record.clone());
    }
}

/// Name in place of that of an undoing step whose name is not recorded.
const UNKNOWN: &str = "compensation";

/// Marks a step as not undone, because its undoing call could not be recorded when the step was committed.
fn give_up(run: &Run, pending: &PendingCompensation, name: &str) {
    let problem = pending.args.as_ref().err().cloned().unwrap_or_default();
    let command = CommandId::new(&pending.place(), name);
    let error = StepError::Unrecordable(run.failure(&command, problem)).recorded();
    run.with_obligations(|obligations| obligations.give_up(&pending.undoes, &command, &error));
}

type UndoingStep = (&'static StepDef, Arc<dyn Body>);

/// How a recorded call that undoes a step is called where it cannot be read.
const ARGUMENTS: &str = "call that undoes it, as arguments";

fn line_of(def: &StepDef) -> String {
    format!("{}:{}", def.file, def.line)
}

/// Why a program could not undo a step by what is recorded alone, before it has run any code of the workflow. `recorded` is
/// what is recorded of the call that undoes it.
pub(crate) fn cannot_undo(
    shared: &EngineShared,
    run: &RunId,
    pending: &PendingCompensation,
    recorded: Option<CommandRecord>,
) -> Option<Fault> {
    let has_answer = recorded.as_ref().is_some_and(|record| record.answer.is_some());
    let of_path = |path: &str| shared.steps.get(path).map(|step| (step.def, step.body()));
    let Some((def, body)) = choose(pending, None, begun_as(pending, recorded), of_path) else {
        let (run, command, step) = (run.clone(), pending.undoes.clone(), pending.step.clone());
        // One whose name is not recorded is given up.
        return (!step.is_empty()).then_some(Fault::StepNotLinked { run, command, step });
    };
    let args = pending.args.as_ref().ok().filter(|_| !has_answer && !pending.has_returned())?;
    let error = ask_in_net(def.path, || body.check(args)).err()?;
    let command = CommandId::new(&pending.place(), def.name);
    let unreadable = Unreadable::new(run, &command, ARGUMENTS, (None, Some(line_of(def))), error);
    Some(Fault::Unreadable(Box::new(unreadable)))
}

/// The step that undoes: the recorded one, also where the code would undo with another one by now. One that was moved to
/// another module is known by its name, as long as its old path is free and the undone step still names it.
fn undoing_step(run: &Run, pending: &PendingCompensation) -> Option<UndoingStep> {
    let declared = run.undo_of(&pending.undoes).map(|undo| (undo.def, undo.body));
    let begun = begun_as(pending, run.recorded(&CommandId::new(&pending.place(), UNKNOWN)));
    choose(pending, declared.clone(), begun, |path| {
        // A step that is generic over types is in no list.
        let declared = declared.clone().filter(|(def, _)| def.path == path);
        declared.or_else(|| run.shared.steps.get(path).map(|step| (step.def, step.body())))
    })
}

/// As [`undoing_step`], of those that `of_path` knows, and of the one that the undone step names today.
fn choose(
    pending: &PendingCompensation,
    declared: Option<UndoingStep>,
    begun: Option<Begun>,
    of_path: impl Fn(&str) -> Option<UndoingStep>,
) -> Option<UndoingStep> {
    let recorded =
        of_path(&pending.step).or_else(|| declared.clone().filter(|(def, _)| is_moved(&pending.step, def)));
    let Some(Begun { name, path }) = begun else { return recorded };
    // What is begun goes on with its step: a former build called that of its code.
    let same_path = path.as_deref().and_then(of_path);
    same_path
        .or_else(|| recorded.filter(|(def, _)| def.name == name))
        .or_else(|| declared.filter(|(def, _)| def.name == name))
}

/// Name and path of the step with which an undoing was begun.
struct Begun {
    name: String,
    path: Option<String>,
}

/// With which step the undoing was begun, by what is recorded here of its call, or else in an earlier generation.
fn begun_as(pending: &PendingCompensation, recorded: Option<CommandRecord>) -> Option<Begun> {
    let recorded = recorded.filter(|record| record.started || record.answer.is_some()).map(|record| {
        let path = record.path.as_deref().map(str::to_owned);
        Begun { name: record.command.name().to_owned(), path }
    });
    let of_started =
        |started: &NodeStarted| Begun { name: started.command.name().to_owned(), path: started.path.clone() };
    recorded.or_else(|| pending.begun_as().map(of_started))
}

/// Whether `recorded` is the path of this step in another module.
fn is_moved(recorded: &str, def: &StepDef) -> bool {
    let name_in = |path: &str| -> Option<String> {
        let mut parts = path.rsplit("::");
        let function = parts.next()?;
        // Of a function of a type, the type is part of the name.
        let owner = parts.next().filter(|owner| owner.starts_with(char::is_uppercase));
        Some(owner.map_or_else(|| function.to_owned(), |owner| format!("{owner}::{function}")))
    };
    !recorded.is_empty() && name_in(recorded) == name_in(def.path)
}

#[cfg(test)]
mod tests {
    use super::is_moved;
    use crate::definition::def::{StepDef, StepOptions};
    use crate::vocabulary::outcome::EffectClass;

    #[test]
    fn a_step_that_was_moved_has_its_name_and_its_type() {
        let is_moved = |recorded: &str, path: &'static str| {
            let options = StepOptions::of(EffectClass::Tool);
            let def = StepDef { name: "n", path, doc: "", file: "", line: 0, options, allows: &[] };
            is_moved(recorded, &def)
        };
        assert!(is_moved("shop::pay::refund", "bank::refund"));
        assert!(is_moved("shop::Bank::refund", "shop::bank::Bank::refund"));
        assert!(!is_moved("shop::Bank::refund", "shop::Card::refund"));
        assert!(!is_moved("shop::refund", "shop::fund") && !is_moved("", "shop::fund"));
    }
}
