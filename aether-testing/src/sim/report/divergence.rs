//! Two runs that should be the same and are not: what was compared, and what each side did.
//!
//! Promise: each side is shown by its event or request, with the source line of its await or of the last await before it.

use aether_core::engine::VerifyError;
use aether_core::id::CommandId;
use aether_core::journal::event::Event;
use aether_core::run::{Divergence, Fault};

use super::journal::event_text;

/// Which two runs came apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// The first run, and a replay of its journal on the same thread.
    Replay,
    /// The first run, and a replay of its journal in the second world.
    ReplayElsewhere,
    /// The first run, and a second run in the second world.
    SecondRun,
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Replay => "a replay of its journal",
            Self::ReplayElsewhere => {
                "a replay of its journal at another time, with other hash keys and seeds"
            }
            Self::SecondRun => "a second run at another time, with other hash keys and seeds",
        })
    }
}

/// Both sides of a replay that does not fit its journal: what was recorded, and what the replay did.
pub(crate) fn sides(events: &[Event], error: &VerifyError) -> (String, String) {
    match error {
        VerifyError::Fault(Fault::Diverged(divergence)) => sides_of(events, divergence),
        VerifyError::Fault(Fault::Unrecorded { requested, .. }) => {
            (end_of(events), format!("asks for {requested}"))
        }
        error => (end_of(events), error.to_string()),
    }
}

fn sides_of(events: &[Event], divergence: &Divergence) -> (String, String) {
    let first = match &divergence.recorded {
        Some(recorded) => {
            let own = events.iter().position(|event| event.command() == Some(&recorded.command));
            let site = own.filter(|_| recorded.site.is_none()).map(|own| place(events, own));
            format!("asks for {recorded}{}", site.unwrap_or_default())
        }
        None => end_of(events),
    };
    let second = match &divergence.requested {
        Some(requested) => format!("asks for {requested}"),
        None if divergence.recorded.is_some() => "ends without asking for it".into(),
        None => format!("ends otherwise{}", place(events, events.len())),
    };
    (first, second)
}

pub(crate) fn end_of(events: &[Event]) -> String {
    described(events, events.len().saturating_sub(1))
}

/// One event, and where in the source it comes from.
pub(crate) fn described(events: &[Event], position: usize) -> String {
    match events.get(position) {
        Some(event) => format!("{}{}", event_text(event), place(events, position)),
        None => format!("has no further event{}", place(events, events.len())),
    }
}

/// The await of an event's command, or the last await before it.
fn place(events: &[Event], position: usize) -> String {
    let sites: Vec<(&CommandId, &str)> =
        events.iter().take(position + 1).filter_map(|event| started(event)).collect();
    let own = events.get(position).and_then(Event::command);
    let found = sites.iter().rev().find(|(command, _)| Some(*command) == own);
    match (found, sites.last()) {
        (Some((_, site)), _) => format!(" at {site}"),
        (None, Some((command, site))) => format!(", after `{command}` at {site}"),
        (None, None) => ", before the first step".into(),
    }
}

fn started(event: &Event) -> Option<(&CommandId, &str)> {
    match event {
        Event::NodeStarted(started) => Some((&started.command, started.site.as_deref()?)),
        _ => None,
    }
}
