//! Why a run cannot be forked.

use crate::engine::start::StartError;
use crate::inbox::error::SendError;
use crate::journal::bill::BilledCall;
use crate::journal::event::forked::ForkDecision;
use crate::journal::frame::JournalError;
use crate::run::fault::Fault;
use crate::store::error::StoreError;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, RunId, RunIdError};
use crate::vocabulary::payload::PayloadError;

/// Why a fork was not planned, or not started. Nothing was executed and nothing was written, unless a variant says so.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// It was not said where to cut.
    #[error(
        "say where run `{run}` is cut: `.before(command)`, `.before_failure()`, `.from_start()` or `.at_end()`"
    )]
    NoCut {
        /// The run to fork.
        run: RunId,
    },
    /// The run has no such command.
    #[error("run `{run}` has no command `{command}`; it has {}", listed(near))]
    NoSuchCommand {
        /// The run to fork.
        run: RunId,
        /// What was asked for.
        command: String,
        /// Commands that may have been meant.
        near: Vec<CommandId>,
    },
    /// The command is in a branch that lost its race, so nothing follows from it.
    #[error("`{command}` of run `{run}` is in a branch that lost the race `{race}`; cut before the race")]
    LostRace {
        /// The run to fork.
        run: RunId,
        /// The command.
        command: CommandId,
        /// The race that its branch lost.
        race: CommandId,
    },
    /// The command undoes another one.
    #[error("`{command}` of run `{run}` undoes another command; cut before that one")]
    Compensation {
        /// The run to fork.
        run: RunId,
        /// The command.
        command: CommandId,
    },
    /// Calls before the cut were undone later: a fork from there would rely on what is not there any more.
    #[error(
        "calls of run `{run}` before the cut were undone later: {}; cut before `{earliest}`, or earlier",
        listed(calls)
    )]
    UndoneBefore {
        /// The run to fork.
        run: RunId,
        /// The calls that were undone.
        calls: Vec<CommandId>,
        /// The first of them, or the race that its branch lost: a place to cut before.
        earliest: CommandId,
    },
    /// The run has continued as new. What it owes from earlier generations cannot be handed to a fork.
    #[error(
        "run `{run}` has continued as new (generation {generation}) and cannot be forked or retried: start a new run with the \
         input of that generation"
    )]
    LaterGeneration {
        /// The run to fork.
        run: RunId,
        /// Number of its present generation.
        generation: u32,
    },
    /// The run did not fail, so there is nothing to retry.
    #[error("run `{run}` is {status} and did not fail; `engine.fork` cuts it where you say")]
    NotFailed {
        /// The run.
        run: RunId,
        /// Its status.
        status: Status,
    },
    /// Something was decided about a call that is not behind the cut.
    #[error("`{command}` is not among the calls behind the cut of run `{run}`: {}", listed(calls))]
    NotBilled {
        /// The run to fork.
        run: RunId,
        /// What was decided about.
        command: String,
        /// The calls behind the cut.
        calls: Vec<CommandId>,
    },
    /// Several calls behind the cut have this command id: the origin is a fork itself, and it and its own origin made one.
    #[error("several calls behind the cut of run `{run}` are `{command}`: name one of them, {}", names.join(", "))]
    Ambiguous {
        /// The run to fork.
        run: RunId,
        /// What was decided about.
        command: String,
        /// The names of those calls, in the order of the bill.
        names: Vec<String>,
    },
    /// The decision is not possible for this call.
    #[error("`{command}` of run `{run}` cannot be decided as `{decision}`: {why}")]
    CannotDecide {
        /// The run to fork.
        run: RunId,
        /// The call.
        command: CommandId,
        /// What was decided.
        decision: ForkDecision,
        /// Why it is not possible.
        why: &'static str,
    },
    /// Nothing was decided about calls that may have changed the world.
    #[error(
        "a fork of run `{run}` needs a decision about {}: keep its outcome, make it again, or undo it first",
        undecided(calls)
    )]
    Undecided {
        /// The run to fork.
        run: RunId,
        /// The calls.
        calls: Vec<BilledCall>,
    },
    /// The run has not ended: both would act.
    #[error(
        "run `{run}` is {status}, and would act beside its fork: `.end_origin(reason)` ends it first, `.leave_origin_running()` \
         lets it run"
    )]
    StillOpen {
        /// The run to fork.
        run: RunId,
        /// Its status.
        status: Status,
    },
    /// The command has no recorded answer before the cut that could be replaced.
    #[error("`{command}` of run `{run}` has no answer before the cut that can be replaced: {why}")]
    NoAnswer {
        /// The run to fork.
        run: RunId,
        /// The command.
        command: String,
        /// Why.
        why: &'static str,
    },
    /// An answer does not serialize.
    #[error("the answer for `{command}` cannot be recorded: {error}")]
    Answer {
        /// The command.
        command: String,
        /// Why.
        error: PayloadError,
    },
    /// The code that is linked does not replay what was copied: it was changed, or a replaced answer does not fit it.
    #[error("the code does not fit the events before the cut of run `{run}`: {fault}")]
    DoesNotFit {
        /// The run to fork.
        run: RunId,
        /// What the replay came upon.
        fault: Box<Fault>,
    },
    /// The id belongs to another run.
    #[error("`{id}` exists, and is not this fork of run `{run}`; give the fork another id")]
    IdTaken {
        /// The run to fork.
        run: RunId,
        /// The id.
        id: RunId,
    },
    /// The id is not usable.
    #[error(transparent)]
    Id(#[from] RunIdError),
    /// It was not said who makes the fork.
    #[error("say who forks run `{run}`: the actor is recorded and must not be empty")]
    NoActor {
        /// The run to fork.
        run: RunId,
    },
    /// The fork would be over a limit.
    #[error("a fork of run `{run}` cannot be recorded: {reason}")]
    OverLimit {
        /// The run to fork.
        run: RunId,
        /// The limit.
        reason: String,
    },
    /// The journal of the run cannot be read, or a newer build wrote events into it that this one does not know.
    #[error("run `{run}`: {error}")]
    Journal {
        /// The run to fork.
        run: RunId,
        /// What is wrong with it.
        error: JournalError,
    },
    /// The run was not asked to end.
    #[error(transparent)]
    End(#[from] SendError),
    /// The engine is shutting down, or has ended with its runtime.
    #[error("run `{run}` was not forked: the engine is shutting down, or its runtime has ended")]
    ShutDown {
        /// The run to fork.
        run: RunId,
    },
    /// The store failed. Where it failed while the fork was written, look whether it is there.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StartError> for ForkError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Id(error) => Self::Id(error),
            StartError::Store(error) => Self::Store(error),
            StartError::ShutDown { run } => Self::ShutDown { run },
            other => {
                Self::Store(StoreError::Unencodable { what: "a fork".into(), reason: other.to_string() })
            }
        }
    }
}

fn listed(commands: &[CommandId]) -> String {
    if commands.is_empty() {
        return "none".into();
    }
    commands.iter().map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ")
}

fn undecided(calls: &[BilledCall]) -> String {
    let call = |call: &BilledCall| {
        let irreversible = if call.irreversible { ", irreversible" } else { "" };
        format!("`{}` ({}{irreversible})", call.command, call.outcome)
    };
    calls.iter().map(call).collect::<Vec<_>>().join(", ")
}
