//! The commands, and what all of them take.
//!
//! Promise: every command is here, with its help in a line.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::args::inbox::Inbox;
use crate::args::queues::{Queues, Schedules};
use crate::args::runs::{Filter, Graph, ManyRuns, OneRun, Runs, Signal, Start, Streams};
use crate::args::store::{Db, Evidence, Export, Import, Schema};
#[cfg(feature = "web")]
use crate::args::store::{Dev, Web};
use crate::screen::When;

/// See and steer durable runs: in the file of a program that runs, and of one that does not.
///
/// Nothing here advances a run: what you decide is written into the store, and takes effect in the program that advances it.
#[derive(Debug, Parser)]
#[command(name = "aether", version)]
pub(crate) struct Standalone {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// See and steer the durable runs of this program.
///
/// Nothing but `dev` advances a run: what you decide is written into the store, and takes effect in the process that advances it.
#[derive(Debug, Parser)]
pub(crate) struct Embedded {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the runs are.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The SQLite file of the runs, or the URL of a Postgres database
    #[arg(long, env = "AETHER_DB", value_name = "PATH|URL", global = true, hide_env_values = true)]
    pub(crate) db: Option<String>,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print JSON; `schema` prints its schemas
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Cut nothing
    #[arg(long, global = true)]
    pub(crate) full: bool,
    /// When to use colour; NO_COLOR is respected
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
    /// Who is recorded with what you decide [default: your login name]
    #[arg(long, env = "AETHER_ACTOR", global = true, value_name = "NAME")]
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List, read, wait for, end, retry and fork runs
    #[command(subcommand)]
    Runs(Runs),
    /// Start a run (in the program that has its workflow)
    Start(Start),
    /// What waits for people: list it, decide it
    #[command(subcommand)]
    Inbox(Inbox),
    /// Send a signal to a run
    Signal(Signal),
    /// Queues, and their limits
    #[command(subcommand)]
    Queues(Queues),
    /// Schedules: list, pause, resume and trigger them
    #[command(subcommand)]
    Schedules(Schedules),
    /// The calls of a run that may have changed the world
    Ledger(OneRun),
    /// What the bodies of a run send while they run
    #[command(subcommand)]
    Streams(Streams),
    /// The state machine of a workflow, as text or as a drawing
    Graph(Graph),
    /// Replay runs without executing anything (in the program that has their workflow)
    Verify(ManyRuns),
    /// What this program would do with every open run, before it is deployed
    Check(Filter),
    /// What workflows reach, through all calls, that a replay would not repeat: `cargo aether check`
    CheckCode {
        /// What `cargo aether check` takes, such as --notes, or -- --all-targets for cargo
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Write a run, with what belongs to it, to a file
    Export(Export),
    /// Load an exported run into a store that does not have it
    Import(Import),
    /// The record of a run, for somebody else to check
    #[command(subcommand)]
    Evidence(Evidence),
    /// The store itself
    #[command(subcommand)]
    Db(Db),
    /// The console in a browser, read-only unless told otherwise
    #[cfg(feature = "web")]
    Web(Web),
    /// A program under development: built and started again on changes, its console beside it
    #[cfg(feature = "web")]
    Dev(Dev),
    /// What is wrong, and how to fix it
    Doctor,
    /// The JSON Schema of what a command prints with --json
    Schema(Schema),
    /// Completions for a shell, to be loaded by it
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The manual page, in roff
    Man,
}
