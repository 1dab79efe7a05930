//! The beginning of a fork: what was decided to be undone is undone before its workflow runs.
//!
//! Promise: the workflow of a fork does not run before all of it is undone; after a crash in between it resumes where it
//! stopped.

use std::sync::Arc;

use crate::engine::advance::drive::{DriveEnd, drive};
use crate::journal::event::Event;
use crate::journal::event::forked::ForkDecision;
use crate::journal::history::History;
use crate::journal::kept::KeptCall;
use crate::journal::obligations::begins_fork;
use crate::perform::undo_first::undo_first;
use crate::run::claim::Run;

/// What a fork does before its workflow runs.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The calls to undo.
    calls: Vec<KeptCall>,
    /// What is recorded of that.
    history: History,
}

impl Beginning {
    /// Takes the beginning of a fork out of the events of its journal; `None` where nothing is to be undone.
    pub(crate) fn take(events: &mut Vec<Event>) -> Option<Self> {
        let decided = events.iter().filter_map(|event| match event {
            Event::ForkDecided(e) => Some(e.clone()),
            _ => None,
        });
        let calls = decided.enumerate().filter(|(_, call)| call.decision == ForkDecision::UndoFirst);
        let calls: Vec<_> = calls.collect();
        if calls.is_empty() {
            return None;
        }
        let begins = |event: &mut Event| event.command().is_some_and(begins_fork);
        let history = History::fold(events.extract_if(.., begins));
        Some(Self { calls, history })
    }

    /// Undoes what is to be undone. `Err` says why the workflow cannot run now, or at all.
    pub(crate) async fn complete(self, run: &Arc<Run>) -> Result<(), DriveEnd> {
        let workflow = run.replace_history(self.history);
        match drive(run, Box::pin(undo_first(Arc::clone(run), self.calls))).await {
            DriveEnd::Done(Ok(Ok(_))) => {
                run.replace_history(workflow);
                Ok(())
            }
            other => Err(other),
        }
    }
}
