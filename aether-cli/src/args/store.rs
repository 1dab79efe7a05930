//! The store as a whole, and files from it.
//!
//! Promise: nothing of a store is deleted that is not named by how it ended and how old it is.

use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "web")]
use clap::ValueEnum;
use clap::{Args, Subcommand};

use crate::time::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Id of the run
    pub(crate) run: String,
    /// The file to write, or - for stdout [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace whatever file has that name
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// Leave in what looks like a secret
    #[arg(long)]
    pub(crate) unmasked: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file of the recording
    pub(crate) file: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Versions, sizes, runs by status, workers. Changes nothing
    Status,
    /// Bring the tables to the version of this build, or make them: processes of older builds stop working on them
    Migrate,
    /// Delete runs that ended long ago
    Prune(Prune),
    /// Copy the file while programs use it
    Backup {
        /// The file to make; none is replaced
        to: PathBuf,
    },
    /// Put a backup in the place of the file, which no program may have open; what was there is kept beside it
    Restore {
        /// The backup
        from: PathBuf,
    },
    /// Read every journal: hash chains, events, large values. Changes nothing
    Check,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Evidence {
    /// Write everything that is recorded of a run, unmasked, for somebody else to check
    Export(EvidenceExport),
    /// Check such a file. Needs no store
    Verify {
        /// The file
        file: PathBuf,
        /// The hash of the history that was noted when it was made
        #[arg(long, value_name = "HASH")]
        tip: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct EvidenceExport {
    /// Id of the run
    pub(crate) run: String,
    /// The file to write, or - for stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Replace whatever file has that name
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) ages: Ages,
    /// Count them and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which ended runs are deleted.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Ages {
    /// Delete completed runs that ended longer ago than this: 30d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) completed: Option<Duration>,
    /// Delete failed runs that ended longer ago than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) failed: Option<Duration>,
    /// Delete rejected runs that ended longer ago than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) rejected: Option<Duration>,
    /// Delete cancelled runs that ended longer ago than this
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) cancelled: Option<Duration>,
}

#[cfg(feature = "web")]
#[derive(Debug, Args)]
pub(crate) struct Web {
    /// The port of this machine; 0 for a free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// What may be done there
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ACTIONS")]
    pub(crate) allow: Vec<Allowed>,
    /// Show idempotency keys, actors, settings and system prompts, too
    #[arg(long)]
    pub(crate) audit: bool,
}

#[cfg(feature = "web")]
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// The folder of the program, with its Cargo.toml [default: the current one]
    pub(crate) folder: Option<PathBuf>,
    /// The port of the console; 0 for a free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// How the program is started there [default: cargo run]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What may be done in the console.
#[cfg(feature = "web")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allowed {
    /// Approve, reject, answer, and say what became of calls in doubt
    Decide,
    /// Send signals
    Signal,
    /// Cancel and terminate runs
    End,
    /// Fork and retry runs
    Fork,
    /// All of them
    All,
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The command, such as `runs list`, or `error`; without it, all
    #[arg(num_args = 0..)]
    pub(crate) command: Vec<String>,
}
