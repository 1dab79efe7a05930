//! A run whose workflow asks to continue as new, and how long its journal may become.
//!
//! Promise: the request is kept for the driver, which ends the generation; nothing is appended here.

use crate::definition::def::WorkflowDef;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::log;
use crate::run::next_generation::{ContinueError, NextGeneration};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::payload::Payload;

impl Run {
    /// Ends this generation; never returns to the workflow.
    pub(crate) async fn continue_as_new<T>(
        &self,
        command: &CommandId,
        def: &'static WorkflowDef,
        input: Payload,
    ) -> T {
        let limits = &self.shared.limits;
        let checked = limits.check("bytes of JSON", input.as_str().len(), limits.payload, "payload");
        if let Err(over) = checked {
            return self.cannot_continue(command, ContinueError::OverLimit(over)).await;
        }
        let _first = self.next_generation.set(NextGeneration { def, input });
        // After it is set: the driver looks for it when it is woken.
        self.root.wake();
        std::future::pending().await
    }

    /// Stops the run: its workflow asked to continue as new where it cannot.
    pub(crate) async fn cannot_continue<T>(&self, command: &CommandId, reason: ContinueError) -> T {
        self.stop(Fault::NotContinued { run: self.id.clone(), command: command.clone(), reason }).await
    }

    /// What the workflow asked to continue with.
    pub(crate) fn next_generation(&self) -> Option<&NextGeneration> {
        self.next_generation.get()
    }

    /// Number of events in the journal of this generation.
    pub(crate) fn history_len(&self) -> u64 {
        self.generation.events(self.next())
    }

    /// Stops a run whose journal is over the limit, and warns once when it comes near.
    pub(crate) async fn check_history(&self) {
        let (events, limits) = (self.history_len(), &self.shared.limits);
        let size = |events: u64| usize::try_from(events).unwrap_or(usize::MAX);
        // The next event is one more.
        let next = size(events).saturating_add(1);
        if let Err(over) = limits.check("events in the journal", next, size(limits.history), "history") {
            let run = self.id.clone();
            return self.stop(Fault::OverLimit { run, over, advice: ADVICE }).await;
        }
        if events >= limits.history_warning() && !self.warned_of_history() {
            tracing::warn!(target: log::RUN, run = %self.id, events, limit = limits.history,
                "the journal nears its limit: {ADVICE}");
        }
    }
}

/// What to do about a journal that becomes too long.
pub(crate) const ADVICE: &str =
    "end this journal with `cx.continue_as_new::<..>(state)`, or split the work into child runs";
