//! Errors as people read them: what, where, how to fix it.
//!
//! Promise: each has the exit code that the table in `docs/cli.md` gives it.

use std::fmt;
use std::io;

use aether_core::engine::{BuildError, DecideError, ForkError, StartError, VerifyError};
use aether_core::id::{CommandId, RunId};
use aether_core::inbox::SendError;
use aether_core::recording::{EvidenceError, RecordingError};
use aether_core::run::Fault;
use aether_core::store::StoreError;
use aether_core::stream::StreamError;
use miette::Diagnostic;

use crate::exit::Exit;
use crate::text::word;

/// Why a command did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    what: String,
    help: Option<String>,
    /// Nothing is said: whoever read the output has seen enough of it.
    pub(crate) is_silent: bool,
}

impl CliError {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), help: None, is_silent: false }
    }

    pub(crate) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The same with another exit code.
    pub(crate) fn because(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Several errors as one, with the exit code of the first.
    pub(crate) fn all(errors: Vec<Self>) -> Option<Self> {
        let what: Vec<_> = errors.iter().map(|error| error.what.clone()).collect();
        let first = errors.into_iter().next()?;
        Some(if what.len() == 1 { first } else { Self { what: what.join("\n"), ..first } })
    }

    /// The output has said it all, and only the exit code is left.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { is_silent: true, ..Self::new(exit, "") }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }
}

/// What a check found is its exit code, also where the reader of its output went away.
pub(crate) fn found(exit: Exit, printed: Result<(), CliError>) -> Result<Exit, CliError> {
    match printed {
        Err(error) if !error.is_silent => Err(error),
        _ => Ok(exit),
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CliError {}

impl Diagnostic for CliError {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.exit.as_str()))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::Done),
            _ => Self::new(Exit::Failed, format!("the output cannot be written: {error}")),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let help = match &error {
            StoreError::UnknownRun { run } => {
                let part: String = run.as_str().chars().take(8).collect();
                let help = format!("`runs list --id {}` lists the runs whose ids contain that", word(&part));
                return Self::new(Exit::NotFound, error.to_string()).with_help(help);
            }
            StoreError::Open { .. } => "`doctor` looks at the file and says what is wrong with it",
            StoreError::ReadOnly { .. } => {
                "give this user the right to write to the file and its folder, or copy both the file and its `-wal` file to \
                 a place where it may write"
            }
            StoreError::Full { .. } => "make room on the disk; nothing that was recorded is lost",
            StoreError::Locked { .. } => "try again; if it stays so, a process holds a transaction open",
            StoreError::Corrupt { .. } => "restore a backup, or ask `doctor`",
            StoreError::Codec { .. } => {
                "the values are encrypted: call `aether::cli::run` in the program that has the keys"
            }
            StoreError::NewerSchema { .. } => {
                "use the command line of the build that wrote it, or a newer one"
            }
            StoreError::OlderSchema { .. } => {
                "use the command line of the build that wrote it; or stop its processes, make a copy, and `db migrate`"
            }
            _ => return Self::new(Exit::Store, error.to_string()),
        };
        Self::new(Exit::Store, error.to_string()).with_help(help)
    }
}

impl From<BuildError> for CliError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Store(error) => error.into(),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

impl From<SendError> for CliError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Store(error) => error.into(),
            SendError::NoActor { .. } => Self::usage(error.to_string()).with_help("pass `--actor`"),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

impl From<DecideError> for CliError {
    fn from(error: DecideError) -> Self {
        let text = error.to_string();
        match error {
            DecideError::Store(error) => error.into(),
            DecideError::Send(error) => error.into(),
            DecideError::NoActor { .. } => Self::usage(text).with_help("pass `--actor`"),
            DecideError::UnknownCommand { run, .. } | DecideError::UnknownWait { run, .. } => {
                Self::new(Exit::NotFound, text)
                    .with_help(format!("`inbox list --run {}` lists what waits", word(run.as_str())))
            }
            DecideError::AmbiguousWait { .. } => Self::usage(text),
            DecideError::Changed { run, command } => {
                Self::new(Exit::Conflict, text).with_help(shows_it(&run, &command))
            }
            DecideError::NotWaiting { .. }
            | DecideError::AlreadyDecided { .. }
            | DecideError::Expired { .. }
            | DecideError::RunEnded { .. }
            | DecideError::MayStillHappen { .. }
            | DecideError::NothingToEdit { .. } => Self::new(Exit::Conflict, text),
            _ => Self::new(Exit::Failed, text),
        }
    }
}

impl From<ForkError> for CliError {
    fn from(error: ForkError) -> Self {
        let text = error.to_string();
        match error {
            ForkError::Store(error) => error.into(),
            ForkError::End(error) => error.into(),
            ForkError::NoSuchCommand { .. } | ForkError::NotBilled { .. } => Self::new(Exit::NotFound, text),
            ForkError::Undecided { .. } => Self::new(Exit::Conflict, text).with_help(
                "decide about each: `--keep COMMAND`, `--again COMMAND` or `--undo-first COMMAND`; `--keep-all`, `--again-all` \
                 and `--undo-all-first` decide about the rest",
            ),
            ForkError::StillOpen { .. } => Self::new(Exit::Conflict, text)
                .with_help("`--end-origin REASON` ends it first, `--leave-origin-running` lets it run"),
            ForkError::NoCut { .. } | ForkError::Ambiguous { .. } | ForkError::Answer { .. } | ForkError::Id(_) => {
                Self::usage(text)
            }
            ForkError::NoActor { .. } => Self::usage(text).with_help("pass `--actor`"),
            ForkError::Journal { .. } | ForkError::OverLimit { .. } | ForkError::ShutDown { .. } => {
                Self::new(Exit::Failed, text)
            }
            _ => Self::new(Exit::Conflict, text),
        }
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        let text = error.to_string();
        match error {
            StartError::Store(error) => error.into(),
            StartError::NoWorkflow { linked, .. } if linked.is_empty() => {
                Self::new(Exit::NotFound, text).with_help(OWN_PROGRAM)
            }
            StartError::NoWorkflow { .. } => Self::new(Exit::NotFound, text),
            StartError::IdTaken { .. } | StartError::Held { .. } | StartError::OverLimit { .. } => {
                Self::new(Exit::Conflict, text)
            }
            StartError::ShutDown { .. } => Self::new(Exit::Failed, text),
            _ => Self::usage(text),
        }
    }
}

impl From<RecordingError> for CliError {
    fn from(error: RecordingError) -> Self {
        match error {
            RecordingError::Store(error) => error.into(),
            error @ RecordingError::Exists { .. } => Self::new(Exit::Conflict, error.to_string()),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

impl From<EvidenceError> for CliError {
    fn from(error: EvidenceError) -> Self {
        match error {
            EvidenceError::Store(error) => error.into(),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

impl From<StreamError> for CliError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Store(error) => error.into(),
            error @ StreamError::Name { .. } => Self::usage(error.to_string()),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

/// What shows a wait as it is now.
pub(crate) fn shows_it(run: &RunId, command: &CommandId) -> String {
    let (run, command) = (word(run.as_str()), word(command.as_str()));
    format!("`inbox show {run} {command}` shows it with its digest of now")
}

/// What to do where a command needs the program's own code.
pub(crate) const OWN_PROGRAM: &str = "this needs the code of the workflows: call `aether::cli::run` in the program that has them, and use its command line";

/// An error of a verification that is none of the run's: `None` where the run does not fit its code.
pub(crate) fn not_verifiable(error: &VerifyError) -> Option<CliError> {
    match error {
        VerifyError::Fault(Fault::Store(error)) => Some(error.clone().into()),
        VerifyError::Fault(fault @ Fault::NotLinked { .. }) => {
            Some(CliError::new(Exit::NotFound, fault.to_string()).with_help(OWN_PROGRAM))
        }
        _ => None,
    }
}
