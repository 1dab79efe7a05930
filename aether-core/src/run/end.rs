//! How a run ended, or why it is not being advanced.
//!
//! Promise: made from the terminal event of a journal, so that every process sees the same end.

use jiff::Timestamp;

use crate::journal::event::uncompensated::Uncompensated;
use crate::journal::event::{Event, RunCancelled};
use crate::run::fault::Fault;
use crate::vocabulary::payload::Payload;

/// How a run ended, or why it is not being advanced.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// The workflow returned this value.
    Completed(Payload),
    /// The workflow returned an error or panicked, or the engine failed the run for good.
    Failed {
        /// The error as the workflow returned it; a [`Failure`](crate::vocabulary::failure::Failure) where it panicked.
        error: Payload,
        /// The error as text.
        message: String,
        /// Steps that could not be undone.
        uncompensated: Vec<Uncompensated>,
    },
    /// It was cancelled, and its steps were undone.
    Cancelled {
        /// The reason given with the request.
        reason: String,
        /// Who requested it.
        actor: String,
        /// Steps that could not be undone.
        uncompensated: Vec<Uncompensated>,
    },
    /// It had not begun by this time, which was the latest, and was not executed.
    Expired {
        /// When it should have begun at the latest.
        at: Timestamp,
    },
    /// It was ended at once, without undoing anything.
    Terminated {
        /// The reason given with the request.
        reason: String,
        /// Who requested it.
        actor: String,
    },
    /// It has not ended, and is not being advanced.
    Stopped(Fault),
}

impl RunEnd {
    /// The end that a terminal event records; `None` for every other event.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::RunCompleted(e) => Some(Self::Completed(e.result.clone())),
            Event::RunFailed(e) => Some(Self::Failed {
                error: e.error.clone(),
                message: e.message.clone(),
                uncompensated: e.uncompensated.clone(),
            }),
            Event::RunCancelled(RunCancelled { expired_at: Some(at), .. }) => Some(Self::Expired { at: *at }),
            Event::RunCancelled(e) => Some(Self::Cancelled {
                reason: e.reason.clone(),
                actor: e.actor.clone(),
                uncompensated: e.uncompensated.clone(),
            }),
            Event::RunTerminated(e) => {
                Some(Self::Terminated { reason: e.reason.clone(), actor: e.actor.clone() })
            }
            _ => None,
        }
    }
}
