//! Races that were won, and whose winner no append names yet.
//!
//! Promise: what a loser is known to have done is not said before it is said who won, or the journal would hold an answer that
//! nobody asks for.

use crate::vocabulary::id::CommandId;

/// A race whose losers were dropped.
#[derive(Clone, Debug)]
pub(crate) struct WonRace {
    pub(crate) command: CommandId,
    /// Number of the branch that won.
    pub(crate) winner: usize,
    /// The scopes of the others.
    pub(crate) losers: Vec<String>,
}

impl WonRace {
    /// Whether a command is one of a branch that lost.
    pub(super) fn has_lost(&self, command: &CommandId) -> bool {
        self.losers.iter().any(|scope| command.is_within(scope))
    }
}
