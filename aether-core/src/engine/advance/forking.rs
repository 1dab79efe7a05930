//! The beginning of a fork: what was decided to be undone is undone before its workflow runs.
//!
//! Promise: the workflow of a fork does not run before all of it is undone; after a crash in between it resumes where it
//! stopped.

use std::sync::Arc;

use crate::engine::advance::drive::{DriveEnd, drive};
use crate::journal::event::Event;
use crate::journal::event::forked::ForkDecision;
use crate::journal::history::{Folding, History};
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

/// The beginning of a fork as far as its journal was read.
#[derive(Debug, Default)]
pub(crate) struct ReadBeginning {
    decided: usize,
    calls: Vec<KeptCall>,
    history: Folding,
}

impl ReadBeginning {
    /// Takes in the next event; gives it back where the workflow has it. What is to be undone is decided before any of it is
    /// undone.
    pub(crate) fn apply(&mut self, event: Event) -> Option<Event> {
        if let Event::ForkDecided(call) = &event {
            if call.decision == ForkDecision::UndoFirst {
                self.calls.push((self.decided, call.clone()));
            }
            self.decided += 1;
        }
        if self.calls.is_empty() || !event.command().is_some_and(begins_fork) {
            return Some(event);
        }
        self.history.apply(event);
        None
    }

    /// `None` where nothing is to be undone.
    pub(crate) fn finish(self) -> Option<Beginning> {
        let Self { calls, history, .. } = self;
        (!calls.is_empty()).then(|| Beginning { calls, history: history.finish() })
    }
}

impl Beginning {
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
