//! The scopes of a run as spans: where they begin and end, and which of them are agents.
//!
//! Promise: a scope has ended when the workflow asks for something behind it, or when the run has ended.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::id::Position;
use aether_core::outcome::EffectClass;
use aether_core::view::{EventTime, Execution, RunView, StepView};
use jiff::Timestamp;

use crate::attributes::question;
use crate::timeline::numbered;

/// A scope below the root.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) path: String,
    pub(crate) began: Timestamp,
    /// The last event of it.
    pub(crate) last: Timestamp,
    /// Where the journal shows that it is over.
    pub(crate) closed: Option<Position>,
    /// Name of the agent that works in it.
    pub(crate) agent: Option<String>,
}

/// The scope that a command or a scope is in.
pub(crate) fn enclosing(place: &str) -> &str {
    place.rsplit_once('.').map_or("", |(scope, _)| scope)
}

/// Whether a path is that of a generation's root, or of a place that branches begin at.
fn is_root(path: &str) -> bool {
    path.is_empty() || path.strip_prefix('c').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The scopes of a run, by their paths. `ended` is the position of the event that ended the run or its generation.
pub(crate) fn scopes(
    view: &RunView,
    began: impl Fn(&Execution) -> Timestamp,
    ended: Option<Position>,
) -> BTreeMap<String, Scope> {
    let mut scopes: BTreeMap<String, Scope> = BTreeMap::new();
    for execution in &view.executions {
        let mut path = enclosing(execution.command.place());
        let (began, last) = (began(execution), last_of(execution));
        while !is_root(path) {
            let scope = scopes.entry(path.to_owned()).or_insert_with(|| Scope {
                path: path.to_owned(),
                began,
                last: last.at,
                closed: ended,
                agent: None,
            });
            scope.began = scope.began.min(began);
            scope.last = scope.last.max(last.at);
            path = enclosing(path);
        }
    }
    // `3` holds nothing itself where it only has the branches `3.b0` and `3.b1`.
    let holding: BTreeSet<&str> = view.executions.iter().map(|of| enclosing(of.command.place())).collect();
    scopes.retain(|path, _| holding.contains(path.as_str()));
    close(view, &mut scopes);
    for step in view.steps.iter().filter(|step| step.class == EffectClass::Llm) {
        if let Some(scope) = scopes.get_mut(enclosing(step.command.place())) {
            name(scope, step);
        }
    }
    scopes
}

fn last_of(execution: &Execution) -> EventTime {
    execution.lifecycle.transitions.last().map_or(execution.lifecycle.created, |moved| moved.moment)
}

/// A scope is closed by the first command with a higher number in a scope around it.
fn close(view: &RunView, scopes: &mut BTreeMap<String, Scope>) {
    // By scope, where each number in it first occurs. A scope is sequential: positions rise with the numbers.
    let mut numbers: BTreeMap<&str, BTreeMap<u32, Position>> = BTreeMap::new();
    for execution in &view.executions {
        let mut place = execution.command.place();
        while !place.is_empty() {
            if let Some((scope, ordinal)) = numbered(place) {
                let position = execution.lifecycle.created.position;
                numbers.entry(scope).or_default().entry(ordinal).or_insert(position);
            }
            place = enclosing(place);
        }
    }
    for scope in scopes.values_mut() {
        let mut place = scope.path.as_str();
        while !place.is_empty() {
            if let Some((outer, ordinal)) = numbered(place) {
                let numbers = numbers.get(outer);
                let next = numbers.and_then(|numbers| numbers.range(ordinal.saturating_add(1)..).next());
                scope.closed = next.map(|(_, position)| *position).into_iter().chain(scope.closed).min();
            }
            place = enclosing(place);
        }
    }
}

/// An agent is who asks a model that may call tools, in a scope of its own.
fn name(scope: &mut Scope, step: &StepView) {
    if scope.agent.is_none()
        && let Some(question) = question(step)
        && !question.tools.is_empty()
    {
        scope.agent = Some(question.call);
    }
}
