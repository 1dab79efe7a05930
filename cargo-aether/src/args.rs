//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Tools for programs with durable workflows.
#[derive(Debug, Parser)]
#[command(name = "cargo-aether", bin_name = "cargo aether", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find what workflows reach, through all calls, that a replay would not repeat
    Check(Check),
    /// Print the JSON Schema of a line that `check --json` prints
    Schema,
    /// Print the sources that are known: kinds, codes, and what to do instead
    Sources,
}

/// Builds the project as `cargo build` does, into a target folder of its own, and reads what its functions name.
///
/// Exit codes: 0 where there is no finding, 1 where there are some, 2 where it could not be checked.
#[derive(Debug, Default, Args)]
pub(crate) struct Check {
    /// The Cargo.toml of the project
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// Where to build [default: aether-check in the project's target folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) target_dir: Option<PathBuf>,
    /// Print one JSON object a finding
    #[arg(long)]
    pub(crate) json: bool,
    /// Show what cannot be told from harmless uses, too
    #[arg(long)]
    pub(crate) notes: bool,
    /// Known findings, which are not told again
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write the findings into the file of --baseline
    #[arg(long, requires = "baseline")]
    pub(crate) write_baseline: bool,
    /// Threads that read object files [default: as many as there are processors]
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Arguments for `cargo build`, such as --all-targets
    #[arg(last = true, value_name = "CARGO ARGS")]
    pub(crate) cargo: Vec<String>,
}
