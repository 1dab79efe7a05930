//! Why a run stopped being advanced without having ended. Never seen by workflow code.

use crate::definition::def::END;
use crate::inbox::error::SendError;
use crate::journal::frame::JournalError;
use crate::run::changes::ValueChanges;
use crate::run::next_generation::ContinueError;
use crate::run::unreadable::Unreadable;
use crate::store::error::{AppendError, StoreError};
use crate::vocabulary::code::{ParkedAt, RunCode};
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::limits::OverLimit;
use crate::vocabulary::outcome::EffectClass;
use crate::vocabulary::payload::{Digest, PayloadError};

/// Code and history do not agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The run that diverged.
    pub run: RunId,
    /// The command in history; `None` where history holds none at this place.
    pub recorded: Option<CommandSummary>,
    /// The command that the code requested; `None` where it never requested the recorded one.
    pub requested: Option<CommandSummary>,
    /// Where the arguments differ, if the command is the same and its recorded arguments are known. Values that look like
    /// secrets are masked.
    pub changes: ValueChanges,
    /// Whether the same source of the workflow recorded the run: then the workflow depends on something that is not recorded, or a
    /// function that it calls was changed.
    pub same_code: bool,
}

/// A command as error messages show it: one side of a [`Divergence`].
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSummary {
    /// Place and name of the command.
    pub command: CommandId,
    /// Its effect class.
    pub class: EffectClass,
    /// Digest of its arguments, where it has any.
    pub digest: Option<Digest>,
    /// Where it is in the source, as `file:line`, where that is known.
    pub site: Option<String>,
}

impl std::fmt::Display for CommandSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` ({}", self.command, self.class)?;
        if let Some(digest) = &self.digest {
            write!(f, ", arguments {}", digest.as_str().get(..12).unwrap_or(digest.as_str()))?;
        }
        f.write_str(")")?;
        if let Some(site) = &self.site {
            write!(f, " at {site}")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "run `{}` diverged: ", self.run)?;
        match (&self.recorded, &self.requested) {
            (Some(recorded), Some(requested)) if recorded.command == requested.command => {
                write!(
                    f,
                    "the code asks for {requested} where history holds {recorded}, with other arguments"
                )?;
                if self.changes.is_empty() { Ok(()) } else { write!(f, ": {}", self.changes) }
            }
            (Some(recorded), Some(requested)) => {
                write!(f, "the code asks for {requested} where history holds {recorded}")
            }
            (Some(recorded), None) => {
                write!(f, "history holds {recorded}, which the code never asks for")
            }
            (None, Some(requested)) => {
                write!(f, "the code asks for {requested}, which history does not hold")
            }
            (None, None) => f.write_str("the result differs from the recorded one"),
        }?;
        if self.same_code {
            return f.write_str("; the source of the workflow is what recorded it, so it depends on something that is not recorded (find it with `cargo aether check`, and with `Sim::check_deterministic`), or a function that it calls was changed");
        }
        f.write_str("; keep a path for it with `cx.version(..)`, keep the former function as a version of its own, or restore the code that recorded it")
    }
}

impl std::error::Error for Divergence {}

/// Why a run stopped being advanced without having ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An append was refused or lost.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run would exceed a limit of the engine. Under a higher limit it resumes where it was.
    #[error("run `{run}`: {over}; {advice}")]
    OverLimit {
        /// The run that stopped.
        run: RunId,
        /// What is too large, and which limit it is over.
        over: OverLimit,
        /// What to do about it.
        advice: &'static str,
    },
    /// The journal cannot be read.
    #[error("run `{run}`: {error}")]
    Journal {
        /// The run that stopped.
        run: RunId,
        /// What is wrong with it.
        error: JournalError,
    },
    /// Code and history do not agree.
    #[error(transparent)]
    Diverged(Box<Divergence>),
    /// A recorded value is not readable by the code of today.
    #[error(transparent)]
    Unreadable(Box<Unreadable>),
    /// The workflow asked to continue as new where it cannot.
    #[error("run `{run}` cannot continue as new at `{command}`: {reason}; nothing of the run was lost")]
    NotContinued {
        /// The run that stopped.
        run: RunId,
        /// The command that asked.
        command: CommandId,
        /// Why it cannot.
        reason: ContinueError,
    },
    /// A verify run came to an effect that is not recorded.
    #[error("run `{run}`: {requested} is not recorded, and this replay executes nothing")]
    Unrecorded {
        /// The run that stopped.
        run: RunId,
        /// What the code asked for.
        requested: Box<CommandSummary>,
    },
    /// The replay policy forbade a command.
    #[error("run `{run}`: command `{command}` is forbidden by the replay policy: {reason}")]
    Forbidden {
        /// The run that stopped.
        run: RunId,
        /// The command that was forbidden.
        command: CommandId,
        /// The reason that the policy gave.
        reason: String,
    },
    /// The workflow took a transition that its state machine does not have.
    #[error(
        "run `{run}`: workflow `{workflow}` went from state {from} to {to}, which its definition does not have"
    )]
    IllegalTransition {
        /// The run that stopped.
        run: RunId,
        /// Name of the workflow.
        workflow: &'static str,
        /// The state it left.
        from: StateName,
        /// The state it entered.
        to: StateName,
    },
    /// The run has a version at a mark for which this code has no path.
    #[error(
        "run `{run}`: mark `{mark}` has version {recorded}, and this code knows versions {from} to {to}: a build whose range has {recorded} resumes the run; nothing of it was lost"
    )]
    MarkOutOfRange {
        /// The run that stopped.
        run: RunId,
        /// Name of the mark.
        mark: String,
        /// The command that asked for it.
        command: CommandId,
        /// The version that the run has.
        recorded: u32,
        /// The lowest version that the code has a path for.
        from: u32,
        /// The highest one.
        to: u32,
    },
    /// The recorded input does not fit the workflow's signature.
    #[error(
        "run `{run}`: the recorded input does not fit workflow `{workflow}`: {error}; nothing of it was lost: let the type read the recorded JSON too, with `#[serde(default)]` or `#[accepts(..)]`"
    )]
    Input {
        /// The run that stopped.
        run: RunId,
        /// Name of the workflow.
        workflow: String,
        /// What the decoder said.
        error: PayloadError,
    },
    /// A step's body asked for a value that the program does not provide.
    #[error("run `{run}`, step `{command}`: {missing}; nothing of the run was lost")]
    NotProvided {
        /// The run that stopped.
        run: RunId,
        /// The step's command.
        command: CommandId,
        /// What is missing.
        missing: crate::vocabulary::deps::MissingDep,
    },
    /// A recorded change of a resource must be confirmed, and the program has no verifier for its kind.
    #[error(
        "run `{run}`: step `{command}` changed a resource of kind `{kind}`, for which no verifier is registered: call `.verifier({kind:?}, ..)` on the engine's builder; nothing of the run was lost"
    )]
    NoVerifier {
        /// The run that stopped.
        run: RunId,
        /// The step's command.
        command: CommandId,
        /// Kind of the changed resource.
        kind: String,
    },
    /// The store cannot run a transaction step, or is not the one that its body is written for.
    #[error(
        "run `{run}`, step `{command}`: a transaction step runs on the store's own database, and this engine keeps its runs in {store}: use `.sqlite(path)` for `cx.sql`, `.postgres(url)` for `cx.postgres`; nothing of the run was lost"
    )]
    NoTransactions {
        /// The run that stopped.
        run: RunId,
        /// The step's command.
        command: CommandId,
        /// Kind and place of the store.
        store: String,
    },
    /// The run was claimed to be ended before its first turn, and nothing asks it to end any more.
    #[error("run `{run}` waits in its queue: it was claimed to be ended, and found no request to end")]
    NoSlot {
        /// The run that was released.
        run: RunId,
    },
    /// The run's workflow is not in this program.
    #[error(
        "run `{run}` is of workflow `{workflow}`, which is not linked into this program (linked are: {linked}); nothing of it was lost: link it, or continue it under another name with `#[workflow(of = {workflow:?}, version = 2)]`"
    )]
    NotLinked {
        /// The run that stopped.
        run: RunId,
        /// Name of its workflow.
        workflow: String,
        /// Names of the workflows that are linked.
        linked: String,
    },
    /// A replay that executes nothing does not come to an end.
    #[error("run `{run}`: its replay did not come to an end within {after:?}; nothing of it was lost")]
    Stalled {
        /// The run.
        run: RunId,
        /// How long it was waited for.
        after: std::time::Duration,
    },
    /// A newer version of the workflow recorded the run, and a run never goes back to an older one.
    #[error(
        "run `{run}` is of version {recorded} of workflow `{workflow}`, and this program has only older ones, up to {linked}; nothing of it was lost"
    )]
    NewerVersion {
        /// The run that stopped.
        run: RunId,
        /// Name of its workflow.
        workflow: String,
        /// The version that recorded it last.
        recorded: u32,
        /// The newest version that is linked.
        linked: u32,
    },
    /// A step is to be undone by another one that is not in this program.
    #[error(
        "run `{run}`: `{command}` is to be undone by step `{step}`, which is not linked into this program: link it, or `.register_step` it; nothing of the run was lost"
    )]
    StepNotLinked {
        /// The run that stopped.
        run: RunId,
        /// The command that is to be undone.
        command: CommandId,
        /// Unique name of the undoing step.
        step: String,
    },
    /// Code of the program panicked outside of workflow and steps, such as the decoder of an input.
    #[error(
        "run `{run}`: its program panicked outside of workflow and steps: {message}; nothing of the run was lost"
    )]
    Panicked {
        /// The run.
        run: RunId,
        /// What it panicked with.
        message: String,
    },
    /// The workflow panicked in code that ran before without a panic: it is other code.
    #[error(
        "run `{run}`: workflow `{workflow}` panicked before it had asked for all that is recorded, so that it is other code than what recorded the run: {message}; nothing of the run was lost"
    )]
    PanickedInReplay {
        /// The run.
        run: RunId,
        /// Name of its workflow.
        workflow: String,
        /// What it panicked with.
        message: String,
    },
    /// The workflow waits for something that is no recorded effect, which a macro or a function without attribute hides.
    #[error(
        "run `{run}`: workflow `{workflow}` waits for something that is not a recorded effect, in a macro or in a function without `#[workflow]`: a replay would not reproduce it; move it into a step, or await effects alone; nothing of the run was lost"
    )]
    StrayAwait {
        /// The run that stopped.
        run: RunId,
        /// Name of its workflow.
        workflow: String,
    },
    /// The run is parked: it waits for code that it fits.
    #[error("run `{run}` is parked: {why}; it needs {needs}, or code that fits it; nothing of it was lost")]
    Parked {
        /// The run.
        run: RunId,
        /// Why the code that tried does not fit.
        why: String,
        /// The code that recorded the run last.
        needs: Box<RunCode>,
    },
    /// The engine is shutting down, or has ended with its runtime; another engine resumes the run.
    #[error(
        "run `{run}` is not advanced here any more: the engine is shutting down, or its runtime has ended"
    )]
    ShutDown {
        /// The run that stopped.
        run: RunId,
    },
}

impl Fault {
    /// The fault of run `run` when a message that it must send was not sent.
    pub(crate) fn not_sent(run: RunId, error: SendError) -> Self {
        match error {
            SendError::Store(error) => Self::Store(error),
            SendError::OverLimit(over) => Self::OverLimit { run, over, advice: "raise the limit" },
            error => Self::Store(StoreError::Unencodable {
                what: format!("a message of run `{run}`"),
                reason: error.to_string(),
            }),
        }
    }

    /// Whether another build of the program is needed to advance the run: its code does not fit what is recorded, or lacks
    /// a part. Such a run is parked.
    ///
    /// ```
    /// use aether_core::id::RunId;
    /// use aether_core::run::Fault;
    /// let run = RunId::new("order-42")?;
    /// let gone = Fault::NotLinked { run: run.clone(), workflow: "triage".into(), linked: "order".into() };
    /// assert!(gone.needs_other_code());
    /// assert!(!Fault::ShutDown { run }.needs_other_code());
    /// # Ok::<(), aether_core::id::RunIdError>(())
    /// ```
    pub fn needs_other_code(&self) -> bool {
        match self {
            Self::Diverged(_)
            | Self::Unrecorded { .. }
            | Self::IllegalTransition { .. }
            | Self::Input { .. }
            | Self::MarkOutOfRange { .. }
            | Self::NotContinued { .. }
            | Self::Unreadable(_)
            | Self::NotProvided { .. }
            | Self::NoVerifier { .. }
            | Self::NoTransactions { .. }
            | Self::NotLinked { .. }
            | Self::NewerVersion { .. }
            | Self::StepNotLinked { .. }
            | Self::Panicked { .. }
            | Self::StrayAwait { .. }
            | Self::PanickedInReplay { .. } => true,
            Self::Append(_)
            | Self::Store(_)
            | Self::OverLimit { .. }
            | Self::NoSlot { .. }
            | Self::Journal { .. }
            | Self::Forbidden { .. }
            | Self::Parked { .. }
            | Self::Stalled { .. }
            | Self::ShutDown { .. } => false,
        }
    }

    /// Whether what is in flight in other branches may finish before the run stops: nothing is wrong with its claim or with the
    /// store, so that its outcomes can be recorded.
    pub(crate) fn lets_finish(&self) -> bool {
        self.needs_other_code() || matches!(self, Self::OverLimit { .. } | Self::Forbidden { .. })
    }

    /// Both places at which code and history differ, where they are known.
    pub(crate) fn sides(&self) -> (Option<ParkedAt>, Option<ParkedAt>) {
        let side =
            |known: &CommandSummary| ParkedAt { command: known.command.clone(), site: known.site.clone() };
        match self {
            Self::Diverged(found) => (found.recorded.as_ref().map(side), found.requested.as_ref().map(side)),
            Self::Unrecorded { requested, .. } => (None, Some(side(requested))),
            Self::Unreadable(found) => {
                let at =
                    |site: &Option<String>| ParkedAt { command: found.command.clone(), site: site.clone() };
                (Some(at(&found.recorded_site)), Some(at(&found.site)))
            }
            Self::NotProvided { command, .. }
            | Self::NoVerifier { command, .. }
            | Self::NoTransactions { command, .. }
            | Self::MarkOutOfRange { command, .. }
            | Self::NotContinued { command, .. }
            | Self::StepNotLinked { command, .. } => {
                (Some(ParkedAt { command: command.clone(), site: None }), None)
            }
            _ => (None, None),
        }
    }

    /// Whether the store failed in a way that may pass, so that the engine resumes the run by itself.
    ///
    /// ```
    /// use aether_core::run::Fault;
    /// use aether_core::store::StoreError;
    /// let locked = StoreError::Locked { store: "sqlite a.db".into(), reason: "busy".into() };
    /// assert!(Fault::Store(locked).is_transient());
    /// ```
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Append(AppendError::Store(error)) | Self::Store(error) => error.is_retryable(),
            Self::Append(AppendError::AskedToEnd { .. }) => true,
            _ => false,
        }
    }
}

/// The number of a state, shown as `start`, `end` or the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateName(pub u16);

impl std::fmt::Display for StateName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            crate::definition::def::START => f.write_str("start"),
            END => f.write_str("end"),
            state => write!(f, "{state}"),
        }
    }
}
