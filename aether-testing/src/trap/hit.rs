//! What the trap caught: the kind of call, where it came from, and what to write instead.
//!
//! Promise: a hit names the run, its last command and the source line, so that it can be found without a debugger.

use std::fmt;

use aether_core::id::{CommandId, RunId};

/// The kind of contact with the world that a call makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrapKind {
    /// Reads a clock.
    Clock,
    /// Draws entropy.
    Entropy,
    /// Reads the environment.
    Environment,
    /// Touches files.
    Files,
    /// Touches the network.
    Network,
    /// Starts a process, or asks about this one or its machine.
    Process,
    /// Starts a thread.
    Threads,
    /// Blocks the thread for some time.
    Waiting,
}

impl TrapKind {
    /// What to write instead.
    fn help(self) -> &'static str {
        match self {
            Self::Clock => {
                "take the time with `cx.now().await`; a progress bar, or anything else that shows how far a run is, belongs outside of the workflow and listens to `engine.watch()`"
            }
            Self::Entropy => "draw with `cx.random().await`, `cx.uuid().await` or `cx.seed().await`",
            Self::Environment => "read it before the run and pass it as input, or read it in a `read` step",
            Self::Files => {
                "move it into a step: `#[step(effect = \"read\")]` or `#[step(effect = \"tool\")]`"
            }
            Self::Network => "use `cx.http()`, or move it into a step",
            Self::Process => {
                "move it into a step: `#[step(effect = \"tool\")]` or `#[step(effect = \"read\")]`"
            }
            Self::Threads => "use `cx.join`, `cx.each` or `cx.race`, or move it into a step",
            Self::Waiting => "wait with `cx.sleep(..).await`",
        }
    }

    /// What the call did, after "workflow code".
    fn did(self) -> &'static str {
        match self {
            Self::Clock => "read the clock",
            Self::Entropy => "drew entropy",
            Self::Environment => "read the environment",
            Self::Files => "touched files",
            Self::Network => "touched the network",
            Self::Process => "asked the operating system about processes",
            Self::Threads => "started a thread",
            Self::Waiting => "blocked its thread",
        }
    }
}

/// A call that the trap caught.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrapHit {
    /// What kind of contact with the world it is.
    pub kind: TrapKind,
    /// The function of libc.
    pub function: String,
    /// The run whose code called.
    pub run: Option<RunId>,
    /// The command that this run asked for last before the call; `None` before the first one.
    pub after: Option<CommandId>,
    /// The functions between libc and the run, innermost first, with file and line where they are known.
    pub backtrace: Vec<String>,
}

impl TrapHit {
    #[cfg(all(feature = "trap", target_os = "linux", target_env = "gnu"))]
    pub(super) fn same_place(&self, other: &Self) -> bool {
        self.function == other.function && self.run == other.run && self.backtrace == other.backtrace
    }
}

impl fmt::Display for TrapHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trap: `{}` called in workflow code: it {}", self.function, self.kind.did())?;
        if let Some(run) = &self.run {
            write!(f, " (run `{run}`, ")?;
            match &self.after {
                Some(after) => write!(f, "after command `{after}`)")?,
                None => f.write_str("before its first command)")?,
            }
        }
        writeln!(f, "; a replay would not see the same\n  help: {}", self.kind.help())?;
        for line in &self.backtrace {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TrapHit {}
