//! The resources that a run's steps reported as changed, each in its newest recorded state: a fold over the journal.
//!
//! Promise: of several changes of one resource only the newest is kept, whichever step made it.

use crate::journal::event::{ConfirmationDecision, Event, StateChanged, StateConfirmed, StateVerdict};
use crate::sched::HashMap;
use crate::vocabulary::id::CommandId;

/// A resource in the state in which the run left it last, and the newest verdict on it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceState {
    /// The newest recorded change.
    pub change: StateChanged,
    /// The newest verdict of a verifier on that change, if there is one.
    pub verdict: Option<StateConfirmed>,
    /// Whether an operator accepted the resource although it differs.
    pub accepted: bool,
}

impl ResourceState {
    /// A change without a verdict.
    pub fn new(change: StateChanged) -> Self {
        Self { change, verdict: None, accepted: false }
    }

    /// Whether the newest verdict is that the resource is unchanged.
    pub fn is_confirmed(&self) -> bool {
        self.verdict.as_ref().is_some_and(|found| found.verdict == StateVerdict::Matches)
    }
}

/// Every changed resource of one run.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// By the command that changed them last, in the order in which it reported them.
    states: HashMap<CommandId, Vec<ResourceState>>,
    last: HashMap<(String, String), CommandId>,
}

impl Resources {
    /// Applies the next event.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::StateChanged(e) => self.changed(e.clone()),
            Event::StateConfirmed(e) => {
                if let Some(state) = self.find(&e.command, &e.resource, &e.id) {
                    state.verdict = Some(e.clone());
                }
            }
            Event::ConfirmationDecided(e) => {
                if let Some(state) = self.find(&e.command, &e.resource, &e.id) {
                    state.accepted = e.decision == ConfirmationDecision::Accept;
                }
            }
            _ => {}
        }
    }

    fn changed(&mut self, change: StateChanged) {
        let name = (change.resource.clone(), change.id.clone());
        if let Some(before) = self.last.insert(name, change.command.clone())
            && let Some(states) = self.states.get_mut(&before)
        {
            states.retain(|known| known.change.resource != change.resource || known.change.id != change.id);
        }
        self.states.entry(change.command.clone()).or_default().push(ResourceState::new(change));
    }

    fn find(&mut self, command: &CommandId, resource: &str, id: &str) -> Option<&mut ResourceState> {
        let states = self.states.get_mut(command)?;
        states.iter_mut().find(|known| known.change.resource == resource && known.change.id == id)
    }

    /// The resources that `command` was the last to change, in the order in which it reported them.
    pub fn left_by(&self, command: &CommandId) -> &[ResourceState] {
        self.states.get(command).map_or(&[], Vec::as_slice)
    }
}
