//! How a run ended, or why it is not being advanced.

use crate::journal::event::Event;
use crate::journal::event::uncompensated::Uncompensated;
use crate::run::fault::Fault;
use crate::vocabulary::payload::Payload;

/// How a run ended, or why it is not being advanced.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// With a value.
    Completed(Payload),
    /// With an error.
    Failed {
        /// The error as the workflow returned it; a [`Failure`] where the workflow panicked.
        error: Payload,
        /// The error as text.
        message: String,
        /// Steps that could not be undone.
        uncompensated: Vec<Uncompensated>,
    },
    /// It was cancelled.
    Cancelled {
        /// Why.
        reason: String,
        /// By whom.
        actor: String,
        /// Steps that could not be undone.
        uncompensated: Vec<Uncompensated>,
    },
    /// It was ended at once, without undoing anything.
    Terminated {
        /// Why.
        reason: String,
        /// By whom.
        actor: String,
    },
    /// It has not ended, and is not being advanced.
    Stopped(Fault),
}

impl RunEnd {
    /// The end that a terminal event tells of.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::RunCompleted(e) => Some(Self::Completed(e.result.clone())),
            Event::RunFailed(e) => Some(Self::Failed {
                error: e.error.clone(),
                message: e.message.clone(),
                uncompensated: e.uncompensated.clone(),
            }),
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
