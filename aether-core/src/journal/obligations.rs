//! A run's obligations when it, or a branch of it, ends: steps to undo, children to end, invocations of unknown outcome.
//!
//! Promise: a fold of the run's journal and nothing else; a step that was undone, or could not be, is not pending again.

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::carried::{Carried, CarriedStep};
use crate::journal::event::forked::ForkDecision;
use crate::journal::event::uncompensated::Uncompensated;
use crate::journal::event::{
    ChildStarted, CompensationRecorded, Event, ForkDecided, InvocationDecision, NodeStarted, OutcomeKept,
    RunContinued,
};
use crate::journal::kept::takes_over;
use crate::sched::{HashMap, mutated};
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, InvocationId, RunId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::Payload;

/// The reserved scope in which steps are undone.
const UNDO: &str = "undo";

/// The reserved scope of what a fork does before its workflow begins. Not part of what its workflow asks for.
pub(crate) const FORK: &str = "fork";

/// Name of the command of `cx.compensate()`.
pub(crate) const COMPENSATE: &str = "compensate";

/// A step that can be undone.
#[derive(Clone, Debug)]
pub(crate) struct PendingCompensation {
    /// The command that would be undone.
    pub(crate) undoes: CommandId,
    /// Unique name of the undoing step.
    pub(crate) step: String,
    /// Its arguments, or why there are none.
    pub(crate) args: Result<Payload, String>,
    half_way: bool,
    /// The first command of `cx.compensate()` that lists it: the name of what undoes it is made of that, whoever makes the
    /// call.
    claimed: Option<CommandId>,
    /// The call that undoes it has succeeded, which may not be said in an event of its own yet.
    has_returned: bool,
    /// What earlier generations recorded of that call and this journal does not hold.
    begun_before: Vec<Event>,
    state: CompensationState,
}

#[derive(Clone, Debug, PartialEq)]
enum CompensationState {
    NotYet,
    Yes,
    Failed(Uncompensated),
}

impl PendingCompensation {
    /// Whether it is still to be undone.
    pub(crate) fn is_open(&self) -> bool {
        self.state == CompensationState::NotYet
    }

    /// Whether the call that undoes it has succeeded.
    pub(crate) fn has_returned(&self) -> bool {
        self.has_returned
    }

    /// Whether a call that undoes it may be recorded that has no outcome.
    fn may_be_begun(&self) -> bool {
        self.is_open() && self.claimed.is_some() && !self.has_returned
    }

    /// Whether nobody has begun to undo it.
    fn is_untouched(&self) -> bool {
        self.is_open() && self.claimed.is_none()
    }

    /// How an earlier generation has begun the call that undoes it.
    pub(crate) fn begun_as(&self) -> Option<&NodeStarted> {
        self.begun_before.iter().find_map(|event| match event {
            Event::NodeStarted(started) => Some(started),
            _ => None,
        })
    }

    /// Whether another command than `by` was the first to list it.
    pub(crate) fn was_begun_by_another(&self, by: Option<&CommandId>) -> bool {
        self.claimed.as_ref().is_some_and(|claimed| Some(claimed) != by)
    }

    /// The place of the command that undoes this one. It is the same for the workflow's code and for the unwinding, so
    /// that the unwinding resumes a compensation that was interrupted in the workflow's code.
    pub(crate) fn place(&self) -> String {
        match &self.claimed {
            Some(claim) => format!("{}.{UNDO}.{}", claim.place(), self.undoes.place()),
            None => format!("{UNDO}.{}", self.undoes.place()),
        }
    }
}

/// Whether this command undoes another one.
pub(crate) fn undoes_another(command: &CommandId) -> bool {
    is_undoing(command.place())
}

/// Whether the command at `place` undoes another one.
pub(crate) fn is_undoing(place: &str) -> bool {
    place.split('.').any(|part| part == UNDO)
}

/// What is recorded of a command, for who goes on with it: consent that nobody gave is to be asked for anew, because the wait
/// for it was closed with the branch, or the workflow, that waited. Consent that was given stays.
pub(crate) fn without_open_questions(mut events: Vec<Event>) -> Vec<Event> {
    if mutated("waits-are-not-asked-anew") {
        return events;
    }
    let is_decided = events.iter().any(|event| matches!(event, Event::ApprovalDecided(_)));
    events.retain(|event| is_decided || !matches!(event, Event::ApprovalRequested(_)));
    events
}

/// Whether this command belongs to the beginning of a fork, and not to its workflow.
pub(crate) fn begins_fork(command: &CommandId) -> bool {
    command.is_within(FORK)
}

/// The name that a fork has for the `number`th call of its origin that was decided about. It is no command of the fork's
/// own, which may make one in the same place.
pub(crate) fn decided_call(number: usize, origin: &CommandId) -> CommandId {
    CommandId::new(&format!("{FORK}.{number}.{}", origin.place()), origin.name())
}

/// The number of the call in such a place, or in that of what undoes it before the fork begins.
pub(crate) fn decided_number(place: &str) -> Option<usize> {
    place.strip_prefix(FORK)?.strip_prefix('.')?.split('.').next()?.parse().ok()
}

/// The obligations of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Obligations {
    /// In the order in which the steps were committed.
    stack: Vec<PendingCompensation>,
    /// Index in the stack of each of them.
    places: HashMap<CommandId, usize>,
    /// The commands that the unwinding undoes, in its order; set once it has begun.
    plan: Vec<CommandId>,
    /// Children that may still run, with the commands that started them.
    children: BTreeMap<RunId, CommandId>,
    /// Every child that was ever started.
    started: HashMap<RunId, CommandId>,
    awaited: HashMap<CommandId, RunId>,
    invocations: BTreeMap<CommandId, InvocationId>,
    /// Invocations of unknown outcome that an operator is asked about, but for those of branches that lost a race.
    asked: BTreeMap<CommandId, InvocationId>,
    /// Transaction steps that were begun and have no answer, but for those of branches that lost a race.
    transactions: BTreeSet<CommandId>,
    /// Errors of undoing commands that are not committed yet.
    errors: HashMap<CommandId, Payload>,
    /// Of a fork: commands that undid calls of its origin before its workflow began.
    undone_first: Vec<CommandId>,
    /// Of a fork: number of calls that were decided about.
    decided: usize,
    /// Of a fork: kept calls that it has not taken over, by their names here.
    kept: Vec<(CommandId, ForkDecided)>,
    /// Something may be recorded only in earlier generations of a call that undoes a step.
    begun_before: bool,
}

impl Obligations {
    /// Folds a whole journal.
    pub(crate) fn fold<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut folded = Self::default();
        events.into_iter().for_each(|event| folded.apply(event));
        folded
    }

    /// Applies the next event.
    pub(crate) fn apply(&mut self, event: &Event) {
        if self.begun_before
            && let Some(step) = event.command().and_then(|command| self.undone_by(command))
        {
            step.begun_before = Vec::new();
        }
        match event {
            Event::CompensationRecorded(e) => self.push(e),
            Event::ForkDecided(e) => self.decide(e),
            Event::OutcomeKept(e) => self.take_over(e),
            Event::RunContinued(e) => *self = Self::carried(e),
            Event::NodeStarted(e) if undoes_another(&e.command) => self.rename(&e.command),
            Event::NodeStarted(e) if e.class == EffectClass::Transaction => {
                self.begin_transaction(&e.command)
            }
            Event::NodeStarted(e) => self.claim(e),
            // Before its workflow began: the step was the origin's, and this run may make one of the same name.
            Event::StepCompensated(e) if begins_fork(&e.command) => self.undone_first.push(e.command.clone()),
            Event::StepCompensated(e) => self.settle(&e.undoes, CompensationState::Yes),
            Event::RunUnwinding(e) => self.plan = self.pending(matches!(*e.end, Event::RunCompleted(_))),
            Event::ChildStarted(e) => self.add_child(e),
            Event::ChildReleased(e) => drop(self.children.remove(&e.child)),
            Event::ToolInvocationStarted(e) => {
                self.close_invocation(&e.command);
                self.invocations.insert(e.command.clone(), e.invocation.clone());
            }
            Event::ToolInvocationFinished(e) => {
                self.close_invocation(&e.command);
                self.remember(&e.command, e.error.as_ref());
            }
            Event::TransactionFinished(e) => self.remember(&e.command, e.error.as_ref()),
            Event::RaceDecided(e) => {
                let scope = e.command.place();
                let goes_on = |begun: &CommandId| !begun.is_within(scope) || begun.is_within(&e.winner);
                self.transactions.retain(goes_on);
                self.asked.retain(|begun, _| goes_on(begun));
            }
            Event::InvocationResolved(e) if e.decision == InvocationDecision::Retry => {}
            Event::InvocationResolved(e) => {
                self.close_invocation(&e.command);
                if e.decision == InvocationDecision::Ask {
                    self.asked.insert(e.command.clone(), e.invocation.clone());
                }
            }
            Event::InvocationAbandoned(e) => self.close_invocation(&e.command),
            Event::StepRetried(e) => self.close_invocation(&e.command),
            Event::CommandCommitted(e) => {
                self.close_invocation(&e.command);
                self.transactions.remove(&e.command);
                if let Some(child) = self.awaited.remove(&e.command) {
                    self.children.remove(&child);
                }
                let repeated = self.errors.remove(&e.command);
                if e.outcome.is_complete()
                    && let Some(step) = self.undone_by(&e.command)
                {
                    step.has_returned = true;
                }
                if !e.outcome.is_complete()
                    && let Some(error) = e.error.as_ref().or(repeated.as_ref())
                {
                    self.fail(&e.command, error);
                }
            }
            _ => {}
        }
    }

    fn close_invocation(&mut self, command: &CommandId) {
        self.invocations.remove(command);
        self.asked.remove(command);
    }

    fn push(&mut self, recorded: &CompensationRecorded) {
        self.insert(usize::MAX, recorded);
    }

    /// Puts it at this index of the stack, or on top.
    fn insert(&mut self, at: usize, recorded: &CompensationRecorded) {
        let missing = || recorded.problem.clone().unwrap_or_else(|| "its arguments are not recorded".into());
        let pending = PendingCompensation {
            undoes: recorded.command.clone(),
            step: recorded.step.clone(),
            args: recorded.args.clone().ok_or_else(missing),
            half_way: recorded.half_way,
            claimed: None,
            has_returned: false,
            begun_before: Vec::new(),
            state: CompensationState::NotYet,
        };
        // After a crash inside the append of an outcome it is recorded twice.
        self.forget(&pending.undoes);
        let at = at.min(self.stack.len());
        if at < self.stack.len() {
            self.places.values_mut().filter(|place| **place >= at).for_each(|place| *place += 1);
        }
        self.places.insert(pending.undoes.clone(), at);
        self.stack.insert(at, pending);
    }

    fn forget(&mut self, undoes: &CommandId) {
        if let Some(known) = self.places.remove(undoes) {
            self.stack.remove(known);
            self.places.values_mut().filter(|place| **place > known).for_each(|place| *place -= 1);
        }
    }

    /// A kept call is the fork's to undo from the start, whether or not it will ask for it.
    fn decide(&mut self, decided: &ForkDecided) {
        let command = decided_call(self.decided, &decided.origin);
        self.decided += 1;
        if decided.decision != ForkDecision::Keep {
            return;
        }
        let Some(step) = decided.undo.clone() else { return };
        let half_way = decided.outcome == Some(Outcome::CompensatableFailure);
        let args = decided.undo_args.clone();
        // Former builds carried it along besides.
        let carried = self.stack.iter().map(|step| step.undoes.clone()).find(|undoes| {
            begins_fork(undoes) && undoes.name() == command.name() && {
                let origin = undoes.place().splitn(3, '.').nth(2);
                origin == Some(decided.origin.place()) && !self.kept.iter().any(|(kept, _)| kept == undoes)
            }
        });
        carried.iter().for_each(|carried| self.forget(carried));
        let recorded = CompensationRecorded { command: command.clone(), step, args, problem: None, half_way };
        // It was made before everything that the fork did itself.
        self.insert(self.kept.len(), &recorded);
        self.kept.push((command, decided.clone()));
    }

    /// From here on the command that takes it over stands for it.
    fn take_over(&mut self, kept: &OutcomeKept) {
        if let Some(at) = self.kept.iter().position(|(_, decided)| takes_over(kept, decided)) {
            let (command, _) = self.kept.remove(at);
            self.forget(&command);
        }
    }

    /// `cx.compensate()` lists what it undoes.
    fn claim(&mut self, started: &NodeStarted) {
        if started.class != EffectClass::Pure || started.command.name() != COMPENSATE {
            return;
        }
        let listed = started.input.as_ref().and_then(|input| input.decode::<Vec<CommandId>>().ok());
        for undoes in listed.unwrap_or_default() {
            if let Some(pending) = self.compensation_mut(&undoes) {
                if mutated("undone-by-each-branch") {
                    pending.claimed = None;
                }
                pending.claimed.get_or_insert_with(|| started.command.clone());
            }
        }
    }

    /// In the journals of former builds, the newest `cx.compensate()` that lists a step names what undoes it.
    fn rename(&mut self, undoing: &CommandId) {
        for step in self.stack.iter_mut().filter(|step| step.claimed.is_some()) {
            let claim = undoing.place().strip_suffix(step.undoes.place());
            let Some(claim) = claim.and_then(|rest| rest.strip_suffix(&format!(".{UNDO}."))) else {
                continue;
            };
            if step.claimed.as_ref().is_some_and(|claimed| claimed.place() != claim) {
                step.claimed = Some(CommandId::new(claim, COMPENSATE));
            }
        }
    }

    fn add_child(&mut self, started: &ChildStarted) {
        self.started.entry(started.child.clone()).or_insert_with(|| started.command.clone());
        // One that is open already, by another command or from an earlier generation, is none of this command: it is refused,
        // or finds it.
        let is_others = self.children.contains_key(&started.child);
        if !started.unawaited && !is_others {
            self.awaited.insert(started.command.clone(), started.child.clone());
        }
        if !started.detached {
            self.children.entry(started.child.clone()).or_insert_with(|| started.command.clone());
        }
    }

    /// Remembers an error that the commit of its command will not repeat.
    fn remember(&mut self, command: &CommandId, error: Option<&Payload>) {
        if let (true, Some(error)) = (undoes_another(command), error) {
            self.errors.insert(command.clone(), error.clone());
        }
    }

    fn settle(&mut self, undoes: &CommandId, state: CompensationState) {
        if let Some(pending) = self.compensation_mut(undoes) {
            pending.state = state;
        }
    }

    /// The step that a command undoes, if it is one that undoes.
    fn undone_by(&mut self, undoing: &CommandId) -> Option<&mut PendingCompensation> {
        if !undoes_another(undoing) {
            return None;
        }
        let place = undoing.place();
        // The last ones are undone first.
        let steps = self.stack.iter_mut().rev();
        steps.filter(|step| place.ends_with(step.undoes.place())).find(|step| step.place() == place)
    }

    fn compensation_mut(&mut self, undoes: &CommandId) -> Option<&mut PendingCompensation> {
        self.stack.get_mut(*self.places.get(undoes)?)
    }

    /// An undoing command failed for good.
    fn fail(&mut self, compensation: &CommandId, error: &Payload) {
        if let Some(undoes) = self.undone_by(compensation).map(|step| step.undoes.clone()) {
            self.give_up(&undoes, compensation, error);
        }
    }

    /// Notes that `undoes` was not undone.
    pub(crate) fn give_up(&mut self, undoes: &CommandId, compensation: &CommandId, error: &Payload) {
        let in_doubt = error.decode::<StepError<Payload>>().is_ok_and(|error| error.is_in_doubt());
        // An error of the user's own type is shown as recorded JSON.
        let message = match error.decode::<StepError>() {
            Ok(error) => error.to_string(),
            Err(_) => error.as_str().to_owned(),
        };
        let failed =
            Uncompensated { step: undoes.clone(), compensation: compensation.clone(), in_doubt, message };
        self.settle(undoes, CompensationState::Failed(failed));
    }

    /// The places of calls that undo steps, of which something may be recorded and no outcome.
    pub(crate) fn begun_places(&self) -> BTreeSet<String> {
        self.stack.iter().filter(|step| step.may_be_begun()).map(PendingCompensation::place).collect()
    }

    /// What earlier generations recorded of the call that undoes `undoes`, where this journal does not hold it. It does once
    /// that is appended.
    pub(crate) fn begun_before(&self, undoes: &CommandId) -> Vec<Event> {
        self.compensation_of(undoes).map(|step| step.begun_before.clone()).unwrap_or_default()
    }

    /// As [`Obligations::begun_before`], of all steps that are not undone.
    pub(crate) fn all_begun_before(&self) -> Vec<Event> {
        let open = self.stack.iter().filter(|step| step.may_be_begun());
        open.flat_map(|step| step.begun_before.iter().cloned()).collect()
    }

    /// What the next generation of the run takes over: steps that are not undone, and the children that may still run. Not
    /// the kept calls that stand: they are decided about there again. `begun` is what this generation recorded of calls that
    /// undo steps, by their places.
    pub(crate) fn carry(
        &self,
        is_open: impl Fn(&RunId) -> bool,
        begun: &HashMap<String, Vec<Event>>,
    ) -> Carried {
        let is_decided_again = |step: &PendingCompensation| {
            step.is_untouched() && self.kept.iter().any(|(command, _)| *command == step.undoes)
        };
        let carried = |step: &PendingCompensation| {
            if step.has_returned || is_decided_again(step) {
                return None;
            }
            let failed = match &step.state {
                CompensationState::Yes => return None,
                CompensationState::NotYet => None,
                CompensationState::Failed(failed) => Some(failed.clone()),
            };
            let recorded = CompensationRecorded {
                command: step.undoes.clone(),
                step: step.step.clone(),
                args: step.args.clone().ok(),
                problem: step.args.clone().err(),
                half_way: step.half_way,
            };
            let here = begun.get(&step.place()).filter(|_| step.may_be_begun());
            let begun = step.begun_before.iter().chain(here.into_iter().flatten()).cloned().collect();
            let (claimed, begun) = (step.claimed.clone(), without_open_questions(begun));
            Some(CarriedStep { recorded, claimed, failed, begun })
        };
        let children = self.children.iter().filter(|(child, _)| is_open(child));
        let children = children.map(|(child, command)| (child.clone(), command.clone())).collect();
        Carried { steps: self.stack.iter().filter_map(carried).collect(), children }
    }

    /// The obligations with which a generation begins.
    fn carried(continued: &RunContinued) -> Self {
        let carried = continued.carried.as_ref().and_then(|carried| carried.decode::<Carried>().ok());
        let Carried { steps, children } = carried.unwrap_or_default();
        let mut obligations = Self { children, ..Self::default() };
        for step in steps {
            obligations.push(&step.recorded);
            obligations.begun_before |= !step.begun.is_empty();
            let failed = step.failed.map_or(CompensationState::NotYet, CompensationState::Failed);
            if let Some(pending) = obligations.compensation_mut(&step.recorded.command) {
                (pending.claimed, pending.state) = (step.claimed, failed);
                pending.begun_before = step.begun;
            }
        }
        obligations
    }

    /// The steps that are to be undone, the last one first; with `half_way` only those that failed half-way.
    pub(crate) fn pending(&self, half_way: bool) -> Vec<CommandId> {
        let is_pending = |step: &&PendingCompensation| {
            step.state == CompensationState::NotYet && (step.half_way || !half_way)
        };
        self.stack.iter().rev().filter(is_pending).map(|step| step.undoes.clone()).collect()
    }

    /// Whether the workflow's code has begun to undo a step that is not undone.
    pub(crate) fn was_begun(&self) -> bool {
        self.stack.iter().any(|step| step.is_open() && step.claimed.is_some())
    }

    /// The commands that the unwinding undoes, in its order.
    pub(crate) fn plan(&self) -> Vec<CommandId> {
        self.plan.clone()
    }

    /// The compensation of `undoes`.
    pub(crate) fn compensation_of(&self, undoes: &CommandId) -> Option<&PendingCompensation> {
        self.stack.get(*self.places.get(undoes)?)
    }

    /// Whether `undoes` was undone.
    pub(crate) fn is_undone(&self, undoes: &CommandId) -> bool {
        self.compensation_of(undoes).is_some_and(|step| step.state == CompensationState::Yes)
    }

    /// Whether this command undid its call of the origin before the workflow of the fork began.
    pub(crate) fn undone_first(&self, command: &CommandId) -> bool {
        self.undone_first.contains(command)
    }

    /// Whether a call of the origin is there to be taken over: it was not undone, and is not about to be.
    pub(crate) fn stands(&self, call: &CommandId) -> bool {
        self.compensation_of(call).is_none_or(PendingCompensation::is_untouched)
    }

    /// The steps that could not be undone.
    pub(crate) fn uncompensated(&self) -> Vec<Uncompensated> {
        let failed = |step: &PendingCompensation| match &step.state {
            CompensationState::Failed(failed) => Some(failed.clone()),
            CompensationState::NotYet | CompensationState::Yes => None,
        };
        self.stack.iter().filter_map(failed).collect()
    }

    /// Children that may still run.
    pub(crate) fn children(&self) -> Vec<RunId> {
        self.children.keys().cloned().collect()
    }

    /// The first command that started `child`.
    pub(crate) fn starter(&self, child: &RunId) -> Option<&CommandId> {
        self.started.get(child)
    }

    /// A transaction step is handed to the store, which may record its outcome when nobody waits for it any more.
    pub(crate) fn begin_transaction(&mut self, command: &CommandId) {
        if !undoes_another(command) {
            self.transactions.insert(command.clone());
        }
    }

    /// Transaction steps that were begun and have no answer, but for those that undo others or whose branch lost a race.
    pub(crate) fn transactions(&self) -> BTreeSet<CommandId> {
        self.transactions.clone()
    }

    /// Invocations that were started and whose outcome is neither known nor decided.
    pub(crate) fn invocations(&self) -> Vec<(CommandId, InvocationId)> {
        listed(&self.invocations).collect()
    }

    /// As [`Obligations::invocations`], and those that an operator is asked about.
    pub(crate) fn unsettled(&self) -> Vec<(CommandId, InvocationId)> {
        listed(&self.invocations).chain(listed(&self.asked)).collect()
    }
}

fn listed(
    invocations: &BTreeMap<CommandId, InvocationId>,
) -> impl Iterator<Item = (CommandId, InvocationId)> + '_ {
    invocations.iter().map(|(command, invocation)| (command.clone(), invocation.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::event::{RunCancelled, RunUnwinding, StepCompensated};

    fn command(id: &str) -> CommandId {
        CommandId::from(id.to_owned())
    }

    fn recorded(id: &str, half_way: bool) -> Event {
        let (command, args) = (command(id), Some(Payload::null()));
        CompensationRecorded { command, step: "refund".into(), args, problem: None, half_way }.into()
    }

    #[test]
    fn the_last_step_is_undone_first_and_once() {
        let mut obligations = Obligations::fold(&[recorded("0:pay", false), recorded("1:book", true)]);
        assert_eq!(obligations.pending(true), [command("1:book")]);
        assert_eq!(obligations.pending(false), [command("1:book"), command("0:pay")]);
        let end = RunCancelled {
            reason: String::new(),
            actor: String::new(),
            uncompensated: Vec::new(),
            expired_at: None,
        };
        obligations.apply(&RunUnwinding { end: Box::new(end.into()) }.into());
        assert_eq!(obligations.compensation_of(&command("1:book")).unwrap().place(), "undo.1");
        let undone = StepCompensated { command: command("undo.1:refund"), undoes: command("1:book") };
        obligations.apply(&undone.into());
        assert!(obligations.is_undone(&command("1:book")));
        // The plan stays what it was: a replay follows it.
        assert_eq!((obligations.plan().len(), obligations.pending(false)), (2, vec![command("0:pay")]));
    }
}
