//! Exit codes.
//!
//! Promise: a number, once released, keeps its meaning. The table in `docs/cli.md` lists them.

use std::process::ExitCode;

/// What a command exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// It did what it was asked.
    Done,
    /// It failed for a reason that no other code stands for.
    Failed,
    /// It was called with arguments that it does not take, or without some that it needs.
    Usage,
    /// There is no such run, wait, command, workflow or file.
    NotFound,
    /// The store cannot be used: missing, not a database, of another version, read-only, full, locked, damaged, away.
    Store,
    /// The state of the run does not allow it: it has ended, was decided, has changed since it was shown, needs decisions.
    Conflict,
    /// A check found something: `verify`, `check`, `doctor`.
    Problems,
    /// What was waited for did not come in time.
    TimedOut,
    /// A run that was waited for has ended, and is not completed.
    NotCompleted,
}

impl Exit {
    /// The number that the process exits with.
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Store => 4,
            Self::Conflict => 5,
            Self::Problems => 6,
            Self::TimedOut => 7,
            Self::NotCompleted => 8,
        }
    }

    /// Its name in the JSON of errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Store => "store",
            Self::Conflict => "conflict",
            Self::Problems => "problems",
            Self::TimedOut => "timed-out",
            Self::NotCompleted => "not-completed",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
