//! The bill of a fork: every call behind a cut that may have changed the world, and what became of it.
//!
//! Promise: a fold of the journal and nothing else; a call is listed once, by its command, whatever its attempts.

use serde::Deserialize;

use crate::journal::cut::Divided;
use crate::journal::event::forked::ForkDecision;
use crate::journal::event::{
    Event, ForkDecided, InvocationDecision, OutcomeKept, StateChanged, StepCompensated,
};
use crate::journal::kept::takes_over;
use crate::journal::obligations::{decided_number, undoes_another};
use crate::sched::HashMap;
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::{CommandId, IdempotencyKey, RunId};
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Digest, Payload};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// It was made, and its value is recorded. A child run ended with a value.
    Done,
    /// It definitely failed and left nothing. A child run ended with an error, and may have left something.
    Failed,
    /// It failed half-way; what it had changed until then was not undone.
    HalfDone,
    /// It was begun, and nobody knows whether it changed the world.
    InDoubt,
    /// It was not made: a person, a rule or the ledger refused it.
    Refused,
    /// It was made, and undone later.
    Compensated,
    /// It was begun when its branch lost a race, or its run ended; nobody knows whether it changed the world.
    Abandoned,
    /// It waits: for a person, for its next attempt, for a report from outside, or for the end of a child run.
    Waiting,
}

impl CallOutcome {
    /// The name as it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::HalfDone => "failed half-way",
            Self::InDoubt => "in doubt",
            Self::Refused => "refused",
            Self::Compensated => "undone",
            Self::Abandoned => "abandoned",
            Self::Waiting => "waiting",
        }
    }
}

impl std::fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call behind the cut of a fork.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BilledCall {
    /// The command that made it.
    pub command: CommandId,
    /// Its class; [`EffectClass::Workflow`] for a child run.
    pub class: EffectClass,
    /// What became of it.
    pub outcome: CallOutcome,
    /// Whether its step declares that it cannot be repeated.
    pub irreversible: bool,
    /// Digest of its arguments.
    pub digest: Option<Digest>,
    /// Unique name of its step, where that is recorded.
    pub path: Option<String>,
    /// Its arguments; where a person edited them, the edited ones. Of a call that a fork has from its own origin, and that
    /// a person edited there, those that the workflow asked for: its `undo` tells what was made.
    pub args: Option<Payload>,
    /// Its value.
    pub result: Option<Payload>,
    /// Its step error.
    pub error: Option<Payload>,
    /// Idempotency key of its newest attempt; `None` where none was made.
    pub key: Option<IdempotencyKey>,
    /// The child run that it started.
    pub child: Option<RunId>,
    /// Where in the source it was awaited, `file:line`.
    pub site: Option<String>,
    /// The step that undoes it, with its arguments, where that is recorded.
    pub undo: Option<(String, Payload)>,
    /// The resources that it says it changed.
    pub changed: Vec<StateChanged>,
    /// What is decided about it; `None` where nothing is.
    pub decision: Option<ForkDecision>,
    /// Its outcome as recorded.
    pub(crate) recorded: Option<Outcome>,
    /// The arguments that the workflow asked for, to which `digest` belongs.
    pub(crate) asked: Option<Payload>,
    invoked: bool,
}

impl BilledCall {
    /// Name of the step, or of the child's workflow.
    pub fn step(&self) -> &str {
        self.command.name()
    }

    /// Whether a fork needs a decision about it: it may have left something in the world. A call that left nothing is made
    /// again if the fork asks for it.
    pub fn needs_decision(&self) -> bool {
        match self.outcome {
            CallOutcome::Done | CallOutcome::HalfDone | CallOutcome::InDoubt | CallOutcome::Abandoned => true,
            CallOutcome::Waiting | CallOutcome::Failed => self.invoked && self.is_open_or_child(),
            CallOutcome::Refused | CallOutcome::Compensated => false,
        }
    }

    fn is_open_or_child(&self) -> bool {
        self.outcome == CallOutcome::Waiting || self.child.is_some()
    }

    /// Whether there is an outcome, or an open child run, that a fork can take over.
    pub fn can_keep(&self) -> bool {
        match self.outcome {
            CallOutcome::Done
            | CallOutcome::Failed
            | CallOutcome::HalfDone
            | CallOutcome::InDoubt
            | CallOutcome::Refused => self.digest.is_some() && self.recorded.is_some(),
            CallOutcome::Waiting => self.digest.is_some() && self.child.is_some(),
            CallOutcome::Compensated | CallOutcome::Abandoned => false,
        }
    }

    /// Whether it can be undone before the fork begins.
    pub fn can_undo(&self) -> bool {
        matches!(self.outcome, CallOutcome::Done | CallOutcome::HalfDone) && self.undo.is_some()
    }

    fn new(command: CommandId) -> Self {
        Self {
            command,
            // Until `node_started` says otherwise: of a wait or a draw there is none.
            class: EffectClass::Pure,
            outcome: CallOutcome::Waiting,
            irreversible: false,
            digest: None,
            path: None,
            args: None,
            result: None,
            error: None,
            key: None,
            child: None,
            site: None,
            undo: None,
            changed: Vec::new(),
            decision: None,
            recorded: None,
            asked: None,
            invoked: false,
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::NodeStarted(e) => {
                self.class = e.class;
                self.irreversible = e.constraints.irreversible;
                self.digest = Some(e.digest.clone());
                self.asked.clone_from(&e.input);
                self.args.clone_from(&e.input);
                self.path.clone_from(&e.path);
                self.site.clone_from(&e.site);
            }
            Event::ApprovalDecided(e) => {
                if let Ok(Edited { approved_with }) = e.decision.decode() {
                    self.args = Some(approved_with);
                }
            }
            Event::ToolInvocationStarted(e) => {
                (self.key, self.invoked) = (Some(e.key.clone()), true);
                self.outcome = CallOutcome::InDoubt;
            }
            Event::ToolInvocationFinished(e) => self.end(e.outcome, e.result.as_ref(), e.error.as_ref()),
            Event::TransactionFinished(e) => {
                self.invoked = true;
                self.end(e.outcome, e.result.as_ref(), e.error.as_ref());
            }
            Event::ToolInvocationRefused(_) => self.outcome = CallOutcome::Refused,
            Event::StepRetried(_) => (self.outcome, self.invoked) = (CallOutcome::Failed, false),
            Event::InvocationResolved(e) => match e.decision {
                InvocationDecision::DidNotHappen => {
                    (self.outcome, self.invoked) = (CallOutcome::Failed, false);
                }
                InvocationDecision::Happened => {}
                _ => self.outcome = CallOutcome::InDoubt,
            },
            Event::InvocationAbandoned(_) => self.outcome = CallOutcome::Abandoned,
            Event::CallbackAwaited(_) => self.outcome = CallOutcome::Waiting,
            Event::HttpRecorded(e) => self.result = Some(e.response.clone()),
            Event::ChildStarted(e) => (self.child, self.invoked) = (Some(e.child.clone()), true),
            Event::CompensationRecorded(e) => {
                self.undo = e.args.clone().map(|args| (e.step.clone(), args));
            }
            Event::StateChanged(e) => self.changed.push(e.clone()),
            Event::CommandCommitted(e) => {
                self.recorded = Some(e.outcome);
                self.end(e.outcome, e.result.as_ref(), e.error.as_ref());
            }
            _ => {}
        }
    }

    /// Takes in how it ended. A later event may not repeat the value.
    fn end(&mut self, outcome: Outcome, result: Option<&Payload>, error: Option<&Payload>) {
        self.result = result.cloned().or(self.result.take()).filter(|_| error.is_none());
        self.error = error.cloned().or(self.error.take());
        self.outcome = match outcome {
            Outcome::Pure | Outcome::Success | Outcome::SideEffectCommitted => CallOutcome::Done,
            Outcome::Compensated => CallOutcome::Compensated,
            Outcome::CompensatableFailure => CallOutcome::HalfDone,
            Outcome::RetryableFailure | Outcome::PermanentFailure => self.failure(),
        };
    }

    /// Whether a failure is definite.
    fn failure(&self) -> CallOutcome {
        let error = self.error.as_ref().and_then(|error| error.decode::<StepError<Payload>>().ok());
        match error {
            // Its value could not be recorded, or nobody knows how far it came. A transaction was rolled back, whatever became of its body.
            Some(StepError::InDoubt(_) | StepError::Panicked(_) | StepError::Unrecordable(_))
                if self.invoked && self.class != EffectClass::Transaction =>
            {
                CallOutcome::InDoubt
            }
            Some(StepError::Rejected(_) | StepError::Taken(_) | StepError::OverBudget(_))
                if !self.invoked =>
            {
                CallOutcome::Refused
            }
            _ => CallOutcome::Failed,
        }
    }
}

/// The decision of a person who edited the arguments of a call, as it is recorded.
#[derive(Deserialize)]
struct Edited {
    approved_with: Payload,
}

/// Whether calls of this class may change the world, by themselves or by what they start.
pub(crate) const fn billed(class: EffectClass) -> bool {
    class.changes_world() || matches!(class, EffectClass::Transaction | EffectClass::Workflow)
}

/// The calls behind a cut, and those before it that were undone behind it.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// In the order in which they were begun.
    pub(crate) calls: Vec<BilledCall>,
    /// Copied calls that were undone behind the cut, or of which that is not known.
    pub(crate) undone: Vec<CommandId>,
}

impl Bill {
    pub(crate) fn of(divided: &Divided<'_>) -> Self {
        let mut calls = Calls::default();
        let mut copied = HashMap::new();
        for (position, event) in divided.events() {
            match (event, event.command()) {
                (Event::ForkDecided(e), _) => calls.inherit(e),
                (Event::OutcomeKept(e), _) => calls.take_over(e),
                (Event::StepCompensated(e), _) => calls.undo(e),
                (_, Some(command)) if divided.holds(position, command) => {
                    copied.insert(command.place().to_owned(), command.clone());
                }
                // What a crash cut off, or a look at what it changed: of a call that is copied.
                (_, Some(command)) if copied.get(command.place()) == Some(command) => {}
                (_, Some(command)) => calls.apply(command, event),
                _ => {}
            }
        }
        calls.bill(&copied)
    }
}

#[derive(Default)]
struct Calls {
    order: Vec<BilledCall>,
    places: HashMap<CommandId, usize>,
    /// Of a run that is a fork itself: calls of its origin that it was told about, and that it has not used so far.
    inherited: Vec<(usize, ForkDecided, BilledCall)>,
    /// How many calls it was told about, and how many calls of its own were copied.
    decided: usize,
    copied: usize,
}

impl Calls {
    fn apply(&mut self, command: &CommandId, event: &Event) {
        let Self { order, places, .. } = self;
        let at = *places.entry(command.clone()).or_insert_with(|| {
            order.push(BilledCall::new(command.clone()));
            order.len() - 1
        });
        if let Some(call) = order.get_mut(at) {
            call.apply(event);
        }
    }

    fn inherit(&mut self, decided: &ForkDecided) {
        let number = self.decided;
        (self.decided, self.copied) = (number + 1, self.order.len());
        if decided.decision == ForkDecision::Again {
            return;
        }
        let mut call = BilledCall::new(decided.origin.clone());
        (call.class, call.digest, call.key) =
            (decided.class, Some(decided.digest.clone()), decided.key.clone());
        (call.child, call.invoked, call.recorded) = (decided.child.clone(), true, decided.outcome);
        call.undo = decided.undo.clone().zip(decided.undo_args.clone());
        call.changed.clone_from(&decided.changed);
        call.irreversible = decided.irreversible;
        call.path.clone_from(&decided.path);
        call.args.clone_from(&decided.args);
        call.asked.clone_from(&decided.args);
        if let Some(outcome) = decided.outcome {
            call.end(outcome, decided.result.as_ref(), decided.error.as_ref());
        }
        self.inherited.push((number, decided.clone(), call));
    }

    fn take_over(&mut self, kept: &OutcomeKept) {
        if let Some(at) = self.inherited.iter().position(|(_, decided, _)| takes_over(kept, decided)) {
            self.inherited.remove(at);
        }
    }

    /// Marks a call as undone.
    fn undo(&mut self, undone: &StepCompensated) {
        let StepCompensated { command, undoes } = undone;
        let call = match decided_number(command.place()).or_else(|| decided_number(undoes.place())) {
            Some(number) => called(&mut self.inherited, number),
            None => self.places.get(undoes).and_then(|at| self.order.get_mut(*at)),
        };
        if let Some(call) = call {
            call.outcome = CallOutcome::Compensated;
        }
    }

    fn bill(self, copied: &HashMap<String, CommandId>) -> Bill {
        let Self { order, mut inherited, copied: first, .. } = self;
        let numbered = order.into_iter().enumerate();
        let (undoing, calls): (Vec<_>, Vec<_>) =
            numbered.partition(|(_, call)| undoes_another(&call.command));
        let mut calls: Vec<_> = calls.into_iter().map(|(_, call)| call).collect();
        let mut undone = Vec::new();
        for (at, call) in undoing {
            let Some(outcome) = as_undone(&call) else { continue };
            let place = undoes(&call.command);
            let target = match decided_number(call.command.place()).or_else(|| decided_number(place)) {
                // Of the origin's own origin: the numbers are not this run's.
                Some(_) if at < first => continue,
                Some(number) => called(&mut inherited, number),
                None => calls.iter_mut().find(|call| call.command.place() == place),
            };
            match target {
                Some(target) => target.outcome = outcome,
                None => undone.extend(copied.get(place).cloned()),
            }
        }
        let mut inherited: Vec<_> = inherited.into_iter().map(|(_, _, call)| call).collect();
        inherited.append(&mut calls);
        // A command about a child that was started before is no start of one.
        let starts = |call: &BilledCall| call.class != EffectClass::Workflow || call.child.is_some();
        inherited.retain(|call| billed(call.class) && starts(call));
        Bill { calls: inherited, undone }
    }
}

/// The call of the origin that has this number.
fn called(inherited: &mut [(usize, ForkDecided, BilledCall)], number: usize) -> Option<&mut BilledCall> {
    inherited.iter_mut().find(|(known, ..)| *known == number).map(|(.., call)| call)
}

/// What the call that undoes another one makes of that one.
fn as_undone(undoing: &BilledCall) -> Option<CallOutcome> {
    match undoing.outcome {
        CallOutcome::Done => Some(CallOutcome::Compensated),
        CallOutcome::Failed | CallOutcome::Refused => None,
        _ => undoing.invoked.then_some(CallOutcome::InDoubt),
    }
}

/// The place of the command that `compensation` undoes.
fn undoes(compensation: &CommandId) -> &str {
    let place = compensation.place();
    match place.rfind("undo.") {
        Some(at) => place.get(at + "undo.".len()..).unwrap_or_default(),
        None => place,
    }
}
