//! The resources that a run's steps reported as changed, each as it was left last: a fold over the journal.
//!
//! Promise: of several changes of one resource only the newest is kept, whichever step made it.

use std::collections::HashMap;

use crate::journal::event::{ConfirmationDecision, Event, StateChanged, StateConfirmed, StateVerdict};
use crate::vocabulary::id::CommandId;

/// A resource as the run left it last, and what was found out about it since.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceState {
    /// The newest change.
    pub change: StateChanged,
    /// The newest verdict on it.
    pub verdict: Option<StateConfirmed>,
    /// An operator accepted it as it is.
    pub accepted: bool,
}

impl ResourceState {
    /// A change that nothing was found out about yet.
    pub fn new(change: StateChanged) -> Self {
        Self { change, verdict: None, accepted: false }
    }

    /// Whether the newest look at it found it as it was left.
    pub fn is_confirmed(&self) -> bool {
        self.verdict.as_ref().is_some_and(|found| found.verdict == StateVerdict::Matches)
    }
}

/// Every changed resource of one run.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// By the command that changed them last, in the order in which it reported them.
    standing: HashMap<CommandId, Vec<ResourceState>>,
    last: HashMap<(String, String), CommandId>,
}

impl Resources {
    /// Takes in the next event.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::StateChanged(e) => self.changed(e.clone()),
            Event::StateConfirmed(e) => {
                if let Some(standing) = self.find(&e.command, &e.resource, &e.id) {
                    standing.verdict = Some(e.clone());
                }
            }
            Event::ConfirmationDecided(e) => {
                if let Some(standing) = self.find(&e.command, &e.resource, &e.id) {
                    standing.accepted = e.decision == ConfirmationDecision::Accept;
                }
            }
            _ => {}
        }
    }

    fn changed(&mut self, change: StateChanged) {
        let name = (change.resource.clone(), change.id.clone());
        if let Some(before) = self.last.insert(name, change.command.clone())
            && let Some(standing) = self.standing.get_mut(&before)
        {
            standing.retain(|known| known.change.resource != change.resource || known.change.id != change.id);
        }
        self.standing.entry(change.command.clone()).or_default().push(ResourceState::new(change));
    }

    fn find(&mut self, command: &CommandId, resource: &str, id: &str) -> Option<&mut ResourceState> {
        let standing = self.standing.get_mut(command)?;
        standing.iter_mut().find(|known| known.change.resource == resource && known.change.id == id)
    }

    /// The resources that `command` was the last to change, in the order in which it reported them.
    pub fn left_by(&self, command: &CommandId) -> &[ResourceState] {
        self.standing.get(command).map_or(&[], Vec::as_slice)
    }
}
