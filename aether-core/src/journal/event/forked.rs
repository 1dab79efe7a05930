//! Where a fork comes from, and what can be decided about the calls behind its cut.
//!
//! Promise: plain values, frozen like the events that hold them.

use serde::{Deserialize, Serialize};

use crate::vocabulary::id::{Position, RunId};

/// The run that a fork was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The run, its origin.
    pub run: RunId,
    /// The cut: the position in the origin's journal from which on nothing was copied.
    pub position: Position,
    /// Who made the fork.
    pub actor: String,
}

/// What is decided about a call that the origin of a fork had made behind the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkDecision {
    /// The fork takes its recorded outcome over when it asks for the same call: the same step with the same arguments.
    Keep,
    /// The fork makes it again, under a key of its own.
    Again,
    /// It is undone before the fork begins, and made again if the fork asks for it.
    UndoFirst,
}

impl std::fmt::Display for ForkDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Again => "again",
            Self::UndoFirst => "undo first",
        })
    }
}
