//! One order in which bodies came back, and what the run did in it.
//!
//! Promise: what is compared does not depend on when anything happened, and leaves out branches that lost a race.

use std::collections::{BTreeMap, BTreeSet};

use aether_core::id::CommandId;
use aether_core::journal::event::Event;
use aether_core::workflow::Workflow;

use super::canonical::canonical_args;
use super::guarantees::{commands, end};
use super::races::{is_lost, races};
use crate::sim::report::sim_report::SimReport;
use crate::sim::scheduler::Released;

/// An order: the choices that lead to it, and the bodies in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    choices: Vec<(usize, usize)>,
    names: Vec<String>,
}

impl Order {
    /// The order in which a scheduler released bodies.
    pub(super) fn of(released: Released) -> Self {
        let Released { choices, names, .. } = released;
        Self { choices, names }
    }

    /// The bodies in their order, for people.
    pub(super) fn names(&self) -> String {
        self.names.join(", ")
    }

    /// Its choices, as the environment names them.
    pub(super) fn id(&self) -> String {
        let choices: Vec<String> = self.choices.iter().map(|(choice, _)| choice.to_string()).collect();
        choices.join(".")
    }

    /// The choices of the next order, depth first.
    pub(super) fn next(&self) -> Option<Vec<usize>> {
        let last = self.choices.iter().rposition(|(choice, count)| choice + 1 < *count)?;
        let mut plan: Vec<usize> = self.choices.iter().take(last + 1).map(|(choice, _)| *choice).collect();
        *plan.last_mut()? += 1;
        Some(plan)
    }
}

/// What must be the same in every order in which races are won in the same way.
#[derive(Debug)]
pub(super) struct OrderOutcome {
    pub(super) order: Order,
    ended: String,
    commands: BTreeMap<CommandId, String>,
    /// The commands of each scope in the order in which they ended.
    scopes: BTreeMap<String, Vec<String>>,
    calls: BTreeSet<String>,
}

impl OrderOutcome {
    pub(super) fn of<W: Workflow>(order: Order, report: &SimReport<W>) -> Self {
        let races = races(&report.events);
        let counts = |command: &CommandId| !is_lost(&races, command);
        let mut scopes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for event in &report.events {
            let Event::NodeFinished(finished) = event else { continue };
            if counts(&finished.command) {
                let place = finished.command.place();
                let scope = place.rsplit_once('.').map_or("", |(scope, _)| scope);
                scopes.entry(scope.into()).or_default().push(finished.command.to_string());
            }
        }
        let calls = report.log.iter().filter(|call| call.run != report.view.run || counts(&call.command));
        Self {
            order,
            ended: end(report),
            commands: commands(report).into_iter().filter(|(command, _)| counts(command)).collect(),
            scopes,
            calls: calls
                .map(|call| format!("{} of {:?}", call.key, canonical_args(&call.command, &call.args)))
                .collect(),
        }
    }

    /// The first thing that is different in `other`.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        if self.ended != other.ended {
            return Some(format!("the run is {}, in the other order {}", self.ended, other.ended));
        }
        let ids = |seen: &Self| seen.commands.keys().cloned().collect::<BTreeSet<_>>();
        if let Some(command) = ids(self).symmetric_difference(&ids(other)).next() {
            return Some(format!("command `{command}` is there in one order only"));
        }
        let changed = self.commands.iter().find(|(command, line)| other.commands.get(*command) != Some(line));
        if let Some((command, line)) = changed {
            let otherwise = other.commands.get(command).map_or("missing", String::as_str);
            return Some(format!("`{command}` is {line}, in the other order {otherwise}"));
        }
        if let Some(call) = self.calls.symmetric_difference(&other.calls).next() {
            return Some(format!("body call {call} happens in one order only"));
        }
        let scope = self.scopes.iter().find(|(scope, ended)| other.scopes.get(*scope) != Some(ended));
        scope.map(|(scope, ended)| format!("the effects of scope `{scope}` are {ended:?} in one order only"))
    }
}
