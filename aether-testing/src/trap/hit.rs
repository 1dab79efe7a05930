//! The trap: while workflow code is polled in a simulation, calls of libc that read the clock, draw entropy, open
//! files or sockets, read the environment, or start processes and threads are caught.
//!
//! Promise: calls by bodies of steps, by stubs, by the engine, by logging and by panics are never caught. What reaches
//! the world without a call of libc is not seen:
//!
//! * code that is not polled as the workflow's own, such as a task that workflow code spawned;
//! * generators that were seeded before, and keys of hash maps, which a thread draws once;
//! * `std::env::vars` and `std::env::args`, which read memory, not `getenv`;
//! * statics, thread-locals, addresses and thread ids, which are memory of this process;
//! * `tokio::time::Instant::now` under a simulation's paused clock, and system calls made without libc.
//!
//! [`Sim::check_deterministic`](crate::Sim::check_deterministic) is for those.
//!
//! The trap works on Linux with glibc, where the linker prefers this crate's definitions to libc's; elsewhere, or
//! without the feature `trap`, nothing is caught, and the first simulation says so.

#[cfg(all(feature = "trap", target_os = "linux", target_env = "gnu"))]
mod frames;
#[cfg(all(feature = "trap", target_os = "linux", target_env = "gnu"))]
mod overrides;
#[cfg(all(feature = "trap", target_os = "linux", target_env = "gnu"))]
mod watch;

#[cfg(not(all(feature = "trap", target_os = "linux", target_env = "gnu")))]
#[path = "trap/absent.rs"]
mod watch;

use std::fmt;

use aether_core::id::{CommandId, RunId};

pub(crate) use self::watch::{Armed, LastCommands, Skew, caught};

/// What a simulation does when workflow code calls libc for something that replay would not reproduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    mode: Mode,
    allowed: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Strict,
    Warn,
    Off,
}

impl Default for Trap {
    fn default() -> Self {
        Self::strict()
    }
}

impl Trap {
    /// The first such call ends the simulation with [`SimError::Trapped`](crate::SimError::Trapped).
    pub fn strict() -> Self {
        Self { mode: Mode::Strict, allowed: Vec::new() }
    }

    /// Such calls are printed as warnings, and listed in [`SimReport::trapped`](crate::SimReport::trapped).
    pub fn warn() -> Self {
        Self { mode: Mode::Warn, allowed: Vec::new() }
    }

    /// Such calls are not noticed.
    pub fn off() -> Self {
        Self { mode: Mode::Off, allowed: Vec::new() }
    }

    /// Lets calls pass that come through a function whose path, or source file, holds `frame`, for example
    /// `src/metrics.rs`: for code of which nothing comes back to the workflow. Logging through `tracing` and `log`
    /// passes anyway. Functions have names only in programs that are not stripped; with debug information those of
    /// generic ones may lack their modules, while files are known.
    pub fn allow(mut self, frame: impl Into<String>) -> Self {
        self.allowed.push(frame.into());
        self
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.mode == Mode::Strict
    }

    pub(crate) fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    pub(crate) fn allowed(&self) -> &[String] {
        &self.allowed
    }
}

/// The kind of contact with the world that a call makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Door {
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

impl Door {
    /// What to write instead.
    fn help(self) -> &'static str {
        match self {
            Self::Clock => "take the time with `cx.now().await`",
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
    pub door: Door,
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
    fn same_place(&self, other: &Self) -> bool {
        self.function == other.function && self.run == other.run && self.backtrace == other.backtrace
    }
}

impl fmt::Display for TrapHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trap: `{}` called in workflow code: it {}", self.function, self.door.did())?;
        if let Some(run) = &self.run {
            write!(f, " (run `{run}`, ")?;
            match &self.after {
                Some(after) => write!(f, "after command `{after}`)")?,
                None => f.write_str("before its first command)")?,
            }
        }
        writeln!(f, "; a replay would not see the same\n  help: {}", self.door.help())?;
        for line in &self.backtrace {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TrapHit {}
