//! The generations of a run: a workflow that continues as new begins its journal anew, under the same id.
//!
//! Promise: commands of two generations never have the same place, so neither do their keys, children and replies.

use crate::journal::event::Event;
use crate::vocabulary::id::{CommandId, Position};

/// Which generation of its run a journal holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    /// 0 until the workflow first continues as new.
    pub(crate) number: u32,
    /// Position of the first event of the journal.
    pub(crate) began: Position,
}

impl Generation {
    /// The generation that begins at `began` with these events.
    pub(crate) fn of(began: Position, events: &[Event]) -> Self {
        // Always the second event, if it is there.
        let number = events.iter().take(2).find_map(|event| match event {
            Event::RunContinued(e) => Some(e.generation),
            _ => None,
        });
        Self { number: number.unwrap_or(0), began }
    }

    /// Number of the generation that a command belongs to; `None` for one whose place does not tell.
    pub(crate) fn of_command(command: &CommandId) -> Option<u32> {
        let root = command.place().split('.').next()?;
        match root.strip_prefix('c') {
            Some(number) => number.parse().ok(),
            None => root.parse::<u64>().ok().map(|_| 0),
        }
    }

    /// The root scope of its commands: of the first generation, the empty text.
    pub(crate) fn scope(self) -> String {
        if self.number == 0 { String::new() } else { format!("c{}", self.number) }
    }

    /// Number of events in the journal when the next one has position `next`.
    pub(crate) fn events(self, next: Position) -> u64 {
        next.saturating_sub(self.began)
    }
}
