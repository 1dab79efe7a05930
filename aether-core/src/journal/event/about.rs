//! What can be said of an event without knowing its fields: its kind's name, and whether it ends its run.

use jiff::Timestamp;

use crate::journal::event::{Event, RunWaiting};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::CommandId;

/// The most commands that a suspension names.
const NAMED: usize = 64;

impl RunWaiting {
    /// The suspension of a run that waits at the commands `on`.
    pub(crate) fn at(mut on: Vec<CommandId>, until: Option<Timestamp>) -> Self {
        let more = on.len().saturating_sub(NAMED) as u64;
        on.truncate(NAMED);
        Self { until, on, more }
    }
}

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
        self.ends_as().is_some()
    }

    /// The status of a run whose journal ends with this event; `None` where it has not ended.
    pub(crate) const fn ends_as(&self) -> Option<Status> {
        match self {
            Self::RunCompleted(_) | Self::ContinuedAsNew(_) => Some(Status::Completed),
            Self::RunFailed(_) => Some(Status::Failed),
            Self::RunCancelled(_) | Self::RunTerminated(_) => Some(Status::Cancelled),
            _ => None,
        }
    }
}

/// As [`Event::ends_as`], by the kind alone: that is in the open also where the event is encoded.
pub(crate) fn end_of(kind: &str) -> Option<Status> {
    match kind {
        "run_completed" | "continued_as_new" => Some(Status::Completed),
        "run_failed" => Some(Status::Failed),
        "run_cancelled" | "run_terminated" => Some(Status::Cancelled),
        _ => None,
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
