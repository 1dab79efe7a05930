//! Why a reply to a run that waits was not taken.
//!
//! Promise: nothing was changed.

use crate::inbox::error::SendError;
use crate::store::error::StoreError;
use crate::view::pending::Pending;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, RunId, WorkerId};
use crate::vocabulary::payload::PayloadError;
use crate::vocabulary::waiting::Waiting;

/// An open wait, as an error lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedWait {
    /// The command that waits.
    pub command: CommandId,
    /// What it waits for.
    pub waiting: Waiting,
    /// Its name.
    pub name: String,
}

impl From<&Pending> for NamedWait {
    fn from(wait: &Pending) -> Self {
        Self { command: wait.command.clone(), waiting: wait.waiting, name: wait.name.clone() }
    }
}

/// The waits as the end of a sentence.
fn listed(open: &[NamedWait]) -> String {
    let line = |wait: &NamedWait| format!("{} `{}` ({})", wait.waiting.as_str(), wait.name, wait.command);
    match open {
        [] => "none".into(),
        open => open.iter().map(line).collect::<Vec<_>>().join(", "),
    }
}

/// Why a reply to a run was not accepted. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The actor is blank.
    #[error("run `{run}`, wait `{wait}`: say who decides; the actor is recorded and must not be empty")]
    NoActor {
        /// The run that was named.
        run: RunId,
        /// The wait that was named.
        wait: String,
    },
    /// The run has not made such a command, or not yet.
    #[error("run `{run}` has no command `{command}`; `Engine::pending` lists what waits")]
    UnknownCommand {
        /// The run that was named.
        run: RunId,
        /// The command that was named.
        command: CommandId,
    },
    /// The command does not wait, or waits for something else.
    #[error(
        "run `{run}`: command `{command}` does not wait for {wanted}, {found}; `Engine::pending` lists what waits"
    )]
    NotWaiting {
        /// The run that was named.
        run: RunId,
        /// The command that was named.
        command: CommandId,
        /// What this reply is for.
        wanted: Waiting,
        /// What the command waits for instead, as the end of a sentence.
        found: String,
    },
    /// Nothing of this name waits for such a reply.
    #[error("run `{run}`: nothing named `{name}` waits for {wanted}; open are: {}", listed(open))]
    UnknownWait {
        /// The run that was named.
        run: RunId,
        /// The name that was given.
        name: String,
        /// What this reply is for.
        wanted: Waiting,
        /// What the run waits for.
        open: Vec<NamedWait>,
    },
    /// Several waits have this name: the reply must name the command.
    #[error("run `{run}`: several waits are named `{name}`; name one of these commands: {}", listed(open))]
    AmbiguousWait {
        /// The run that was named.
        run: RunId,
        /// The name that was given.
        name: String,
        /// The waits of this name.
        open: Vec<NamedWait>,
    },
    /// The run waits for something else than what was shown.
    #[error(
        "run `{run}`: command `{command}` waits for something else than what was shown; show the wait as it is now"
    )]
    Changed {
        /// The run that was named.
        run: RunId,
        /// The command that was found.
        command: CommandId,
    },
    /// Another reply was first.
    #[error("run `{run}`: command `{command}` was decided already, by {by}")]
    AlreadyDecided {
        /// The run that was named.
        run: RunId,
        /// The command that was named.
        command: CommandId,
        /// Who decided, as recorded in the journal.
        by: String,
    },
    /// The time limit of the wait is over.
    #[error("run `{run}`: command `{command}` waited until {until}; it is too late")]
    Expired {
        /// The run that was named.
        run: RunId,
        /// The command that was named.
        command: CommandId,
        /// When the wait expired.
        until: jiff::Timestamp,
    },
    /// The run has ended.
    #[error("run `{run}` is {status}; nothing of it waits any more")]
    RunEnded {
        /// The run that was named.
        run: RunId,
        /// Its terminal status.
        status: Status,
    },
    /// The value does not fit the step; the step keeps waiting.
    #[error(
        "run `{run}`: what was given for command `{command}` does not fit its step, which keeps waiting: {error}"
    )]
    Misfit {
        /// The run that was named.
        run: RunId,
        /// The command that was named.
        command: CommandId,
        /// Why it does not decode.
        error: PayloadError,
    },
    /// It may still happen: the worker that began the call is paused, and may finish it when it wakes.
    #[error(
        "run `{run}`: command `{command}` did not happen yet, but worker `{worker}`, which began it, is paused and may still do it; look again and say so when that process has woken or ended"
    )]
    MayStillHappen {
        /// The run that was named.
        run: RunId,
        /// The command that was named.
        command: CommandId,
        /// The worker that lost the run and has not noticed it.
        worker: WorkerId,
    },
    /// The approval is not about a call, so there are no arguments to edit.
    #[error(
        "run `{run}`: command `{command}` asks for a decision and makes no call, so it has no arguments to edit: use `approve`"
    )]
    NothingToEdit {
        /// The run that was named.
        run: RunId,
        /// The command that was named.
        command: CommandId,
    },
    /// The token does not belong to a run in this store.
    #[error(
        "this is no callback token of a run in this store (it starts {start:?}); pass the token exactly as `Callback::token` returned it"
    )]
    UnknownToken {
        /// First characters of the token.
        start: String,
    },
    /// The value does not serialize.
    #[error("the value cannot be recorded: {0}")]
    Unrecordable(#[from] PayloadError),
    /// The reply is over a limit of the engine, or could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The store failed, or has no such run.
    #[error(transparent)]
    Store(#[from] StoreError),
}
