//! One run's journal as a fold: the view of the run, and what spans need besides.
//!
//! Promise: folding executes nothing, and gives the same however often it stops and goes on. What no later span needs is not
//! kept.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::id::{CommandId, Position, RunId};
use aether_core::journal::event::{Event, RunCreated};
use aether_core::outcome::{EffectClass, Outcome};
use aether_core::payload::Payload;
use aether_core::trace::{Trace, TraceContext};
use aether_core::view::{EventTime, Execution, RunView, StepView, TimedEvent};
use jiff::Timestamp;

use crate::attributes::question;
use crate::scopes::{Scopes, around};
use crate::timeline::Timeline;

/// Memory of a step without its values, about, with its executions and its times.
const STEP_BYTES: usize = 2_048;

/// Bytes of values after which spans are taken.
const GATHERED: usize = 4 << 20;

/// A run that the span of another one names.
#[derive(Clone, Debug)]
pub(crate) struct Related {
    pub(crate) run: RunId,
    /// Its span, if the run was still there.
    pub(crate) span: Option<TraceContext>,
}

impl Related {
    fn new(run: RunId) -> Self {
        Self { run, span: None }
    }
}

/// The fold over one journal.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) view: RunView,
    pub(crate) timeline: Timeline,
    pub(crate) scopes: Scopes,
    /// Where the view has the executions of each command.
    executions: BTreeMap<CommandId, Vec<usize>>,
    indexed: usize,
    /// Where the view has each step.
    steps: BTreeMap<CommandId, usize>,
    /// Steps whose values are kept, because their spans are not made yet.
    whole: BTreeSet<CommandId>,
    /// Commands with events since spans were taken.
    pub(crate) touched: BTreeSet<CommandId>,
    trace: Option<Trace>,
    traceparent: Option<String>,
    /// The run that started this one.
    pub(crate) parent: Option<Related>,
    /// The run that this one is a fork of.
    pub(crate) origin: Option<Related>,
    /// Up to where spans were taken.
    pub(crate) taken: Position,
    /// Bytes of values since then, about.
    gathered: usize,
}

impl Fold {
    /// Of a run that was started in the trace context `traceparent`.
    pub(crate) fn new(run: RunId, traceparent: Option<String>) -> Self {
        Self {
            view: RunView::new(run),
            timeline: Timeline::default(),
            scopes: Scopes::default(),
            executions: BTreeMap::new(),
            indexed: 0,
            steps: BTreeMap::new(),
            whole: BTreeSet::new(),
            touched: BTreeSet::new(),
            trace: None,
            traceparent,
            parent: None,
            origin: None,
            taken: 0,
            gathered: 0,
        }
    }

    /// Position of the next event.
    pub(crate) fn next(&self) -> Position {
        self.view.position
    }

    /// When the run is due, where it is suspended until a time.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.timeline.due
    }

    /// The trace, once the first event is known.
    pub(crate) fn trace(&self) -> Option<Trace> {
        self.trace
    }

    /// Goes to an event whose predecessors are gone: those of an earlier generation of the run.
    pub(crate) fn skip_to(&mut self, position: Position) {
        if self.view.position < position {
            self.view.position = position;
        }
    }

    /// Takes the next event in. The spans of a generation that is over must have been taken before.
    pub(crate) fn apply(&mut self, at: Timestamp, event: Event) {
        let now = EventTime { position: self.view.position, at };
        if let Event::RunCreated(created) = &event {
            self.begin(created);
        }
        self.timeline.apply(now, &event);
        let command = event.command().cloned();
        let ends_others = event.is_terminal() || matches!(event, Event::RaceDecided(_));
        let is_terminal = event.is_terminal();
        let undone = self.undone(&event);
        self.view.apply(TimedEvent { at, event });
        self.index();
        if let Some((at, outcome)) = undone
            && let Some(step) = self.view.steps.get_mut(at)
        {
            step.outcome = outcome;
        }
        if let Some(command) = command {
            let agent = self.agent_of(&command);
            self.scopes.apply(&command, now, agent);
            self.gathered += self.view.step(&command).map_or(0, values);
            self.touched.insert(command);
        }
        if is_terminal {
            self.scopes.end_all(now.position);
        }
        if ends_others {
            self.touched.extend(self.executions.keys().cloned());
        }
    }

    /// The step that an event undoes, and the outcome that it keeps: its span and its count say what the call came to, and
    /// may be there already.
    fn undone(&self, event: &Event) -> Option<(usize, Option<Outcome>)> {
        let Event::StepCompensated(e) = event else { return None };
        let at = *self.steps.get(&e.undoes)?;
        Some((at, self.view.steps.get(at)?.outcome))
    }

    /// What is taken in so far was copied from the origin of a fork: it happened there, and its spans are those of the
    /// origin.
    pub(crate) fn leave_to_origin(&mut self) {
        self.taken = self.view.position;
        let copied = std::mem::take(&mut self.touched);
        self.scopes.leave_to_origin();
        self.release(&copied);
    }

    /// The generation so far is over: the beginning of the next one, at `at`, is the next event.
    pub(crate) fn end_generation(&mut self, at: Timestamp) {
        let now = EventTime { position: self.view.position, at };
        self.scopes.end_all(now.position);
        self.timeline.renew(now);
    }

    /// Lets go of the values of steps that have ended and whose spans were made, and of what no span needs.
    pub(crate) fn release(&mut self, touched: &BTreeSet<CommandId>) {
        self.gathered = 0;
        self.view.effects = Vec::new();
        self.view.input = None;
        for command in touched {
            let Some(step) = self.steps.get(command).and_then(|at| self.view.steps.get_mut(*at)) else {
                continue;
            };
            (step.changes, step.confirmations) = (Vec::new(), Vec::new());
            if step.status.is_terminal() {
                (step.input, step.edited, step.result) = (None, None, None);
                self.whole.remove(command);
            } else {
                self.whole.insert(command.clone());
            }
        }
        self.timeline.release();
    }

    /// Whether spans should be taken before more is taken in, because of the memory.
    pub(crate) fn is_full(&self) -> bool {
        self.gathered > GATHERED
    }

    /// Memory that it takes, about, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let whole = self.whole.iter().chain(&self.touched).filter_map(|command| self.view.step(command));
        self.view.steps.len() * STEP_BYTES + whole.map(values).sum::<usize>()
    }

    /// Bytes of all values that it keeps.
    #[cfg(test)]
    pub(crate) fn kept_values(&self) -> usize {
        let input = self.view.input.as_ref().map_or(0, |input| input.as_str().len());
        let output =
            |output: &Result<Payload, Payload>| output.as_ref().map_or(0, |value| value.as_str().len());
        let outputs = self.view.effects.iter().map(|effect| output(&effect.output)).sum::<usize>();
        input + outputs + self.view.steps.iter().map(values).sum::<usize>()
    }

    /// The name of an agent, where `command` is a question of one: it offers tools.
    fn agent_of(&self, command: &CommandId) -> Option<String> {
        let is_answered = |place: &str| around(place).next().and_then(|path| self.scopes.get(path));
        if is_answered(command.place()).is_some_and(|scope| scope.agent(Position::MAX).is_some()) {
            return None;
        }
        let step = self.view.step(command).filter(|step| step.class == EffectClass::Llm)?;
        question(step).filter(|question| !question.tools.is_empty()).map(|question| question.call)
    }

    /// Notes the steps and executions that the last event has made.
    fn index(&mut self) {
        for (at, step) in self.view.steps.iter().enumerate().skip(self.steps.len()) {
            self.steps.insert(step.command.clone(), at);
        }
        for (at, execution) in self.view.executions.iter().enumerate().skip(self.indexed) {
            self.executions.entry(execution.command.clone()).or_default().push(at);
        }
        self.indexed = self.view.executions.len();
    }

    /// Whether taking this event in would forget what is there.
    pub(crate) fn forgets(&self, event: &Event) -> bool {
        matches!(event, Event::RunCreated(_)) && self.view.position > 0
    }

    fn begin(&mut self, created: &RunCreated) {
        self.timeline = Timeline::default();
        self.scopes = Scopes::default();
        (self.executions, self.indexed) = (BTreeMap::new(), 0);
        self.steps = BTreeMap::new();
        (self.touched, self.whole) = (BTreeSet::new(), BTreeSet::new());
        self.trace = Some(Trace::of(self.traceparent.as_deref(), &created.seed));
        self.parent = created.parent.clone().map(Related::new);
        self.origin = created.forked_from.clone().map(|from| Related::new(from.run));
    }

    pub(crate) fn executions_of(&self, command: &CommandId) -> Vec<&Execution> {
        let indices = self.executions.get(command).into_iter().flatten();
        indices.filter_map(|at| self.view.executions.get(*at)).collect()
    }
}

/// Bytes of the values of a step.
fn values(step: &StepView) -> usize {
    let result = step.result.as_ref().map(|result| result.as_ref().unwrap_or_else(|error| error));
    let values = [step.input.as_ref(), step.edited.as_ref(), result];
    values.into_iter().flatten().map(|value: &Payload| value.as_str().len()).sum()
}
