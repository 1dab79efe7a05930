//! The races of a run, as its journal decided them.
//!
//! Promise: only what was recorded counts; a race without a winner is none.

use aether_core::id::CommandId;
use aether_core::journal::event::Event;

/// Whether a command belongs to a branch that lost one of `races`: a replay does not ask for it.
pub(super) fn is_lost(races: &[(String, String)], command: &CommandId) -> bool {
    races.iter().any(|(race, winner)| command.is_within(race) && !command.is_within(winner))
}

/// Place and winning scope of each race.
pub(super) fn races(events: &[Event]) -> Vec<(String, String)> {
    let decided = events.iter().filter_map(|event| match event {
        Event::RaceDecided(decided) => Some((decided.command.place().to_owned(), decided.winner.clone())),
        _ => None,
    });
    decided.collect()
}
