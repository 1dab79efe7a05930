//! What several commands print in the same way.

use aether_core::payload::Payload;

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::steering::{Deed, Steered};
use crate::screen::{Cell, Screen, Tone};
use crate::session::Session;

/// A status in its tone.
pub(crate) fn status(status: &str) -> Cell {
    Cell::toned(status, tone_of(status))
}

/// How a status stands out.
pub(crate) fn tone_of(status: &str) -> Tone {
    match status {
        "completed" | "succeeded" | "confirmed" => Tone::Good,
        "failed" | "rejected" | "in_doubt" => Tone::Bad,
        "waiting" | "cancelled" => Tone::Warn,
        _ => Tone::Plain,
    }
}

/// A value and its name, where there is one.
pub(crate) fn value(screen: &Screen, name: &str, value: Option<&Payload>) -> Result<(), CliError> {
    value.map_or(Ok(()), |value| screen.field(name, value.as_str()))
}

/// What was done.
pub(crate) fn steered(session: &Session, done: Vec<Deed>) -> Result<Exit, CliError> {
    if session.screen.is_json {
        session.screen.json(&Steered { done })?;
        return Ok(Exit::Done);
    }
    for deed in &done {
        let about = deed.command.as_ref().map(|command| format!(" {command}")).unwrap_or_default();
        let by = deed.actor.as_ref().map(|actor| format!(" by {actor}")).unwrap_or_default();
        session.screen.line(&format!("{}{about}: {}{by}", deed.run, deed.action.replace('_', " ")))?;
        if let Some(note) = &deed.note {
            session.screen.note(note);
        }
    }
    Ok(Exit::Done)
}
