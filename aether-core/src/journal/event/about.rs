//! What can be said of an event without knowing its fields: its kind's name, and whether it ends its run.

use crate::journal::event::Event;

impl Event {
    /// Name of the kind as it stands in the journal.
    pub fn kind(&self) -> String {
        match self {
            Self::Unknown { kind } => kind.clone(),
            known => Self::KINDS
                .iter()
                .find(|(number, _)| *number == known.number())
                .map_or_else(String::new, |(_, name)| snake_case(name)),
        }
    }

    /// Whether this event ends its run.
    pub const fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::RunCompleted(_)
                | Self::RunFailed(_)
                | Self::RunCancelled(_)
                | Self::RunTerminated(_)
                | Self::ContinuedAsNew(_)
        )
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
