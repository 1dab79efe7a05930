//! Why a message was not put into a run's inbox.
//!
//! Promise: after one of these errors nothing was sent, and the run is unchanged.

use crate::store::error::StoreError;
use crate::vocabulary::id::RunId;
use crate::vocabulary::limits::OverLimit;
use crate::vocabulary::payload::PayloadError;

/// Why a signal, or a request to end a run, was not sent. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The value cannot be written as JSON.
    #[error("{what} to run `{run}` was not sent: its value cannot be recorded: {error}")]
    Unrecordable {
        /// The run it was addressed to.
        run: RunId,
        /// What was to be sent, such as "signal `paid`".
        what: String,
        /// What the encoder said.
        error: PayloadError,
    },
    /// The message, or the inbox with it, is over a limit of the engine.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The actor of a request to end the run is blank.
    #[error("run `{run}`: say who asks for its end; the actor is recorded and must not be empty")]
    NoActor {
        /// The run that was to end.
        run: RunId,
    },
    /// The store failed, or has no such run.
    #[error(transparent)]
    Store(#[from] StoreError),
}
