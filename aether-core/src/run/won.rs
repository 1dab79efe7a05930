//! Races that were won, and whose winner no append names yet.
//!
//! Promise: what a loser is known to have done is not said before it is said who won, or the journal would hold an answer that
//! nobody asks for.

use crate::run::claim::Run;
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
    fn has_lost(&self, command: &CommandId) -> bool {
        self.losers.iter().any(|scope| command.is_within(scope))
    }
}

impl Run {
    /// Notes who won.
    pub(crate) fn note_won(&self, race: WonRace) {
        self.lock().won.push(race);
    }

    /// An append says who won.
    pub(crate) fn note_decided(&self, race: &WonRace) {
        let is_over = |other: &WonRace| other.command == race.command || race.has_lost(&other.command);
        self.lock().won.retain(|other| !is_over(other));
    }

    /// Races that whoever releases the run is to decide: all that is recorded was delivered before they were won.
    pub(crate) fn undecided_races(&self) -> Vec<WonRace> {
        let state = self.lock();
        if state.cancelling || !state.history.is_exhausted() || !state.history.is_proven() {
            return Vec::new();
        }
        let is_lost = |race: &&WonRace| state.won.iter().any(|other| other.has_lost(&race.command));
        state.won.iter().filter(|race| !is_lost(race)).cloned().collect()
    }

    /// Whether a call is one of a branch that lost a race of which no append says so yet.
    pub(super) fn has_lost_undecided(&self, command: &CommandId) -> bool {
        let losers: Vec<String> =
            self.lock().won.iter().flat_map(|race| race.losers.iter().cloned()).collect();
        self.is_lost_with(command, &losers)
    }
}
