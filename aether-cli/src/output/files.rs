//! Stores and files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// `export --out`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Exported {
    /// The file that was written.
    pub(crate) file: String,
    /// The runs in it.
    pub(crate) runs: Vec<String>,
    /// Number of different secrets that were masked.
    pub(crate) masked: usize,
}

/// `import`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Imported {
    /// The runs that are in the store now.
    pub(crate) runs: Vec<String>,
}

/// `db status`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StoreReport {
    /// Kind and place of the store.
    pub(crate) store: String,
    /// Version of its tables; `None` where the store does not tell.
    pub(crate) version: Option<u32>,
    /// The version that this build writes.
    pub(crate) supported: Option<u32>,
    /// Size of the file in bytes.
    pub(crate) bytes: Option<u64>,
    /// Size of its write-ahead log in bytes.
    pub(crate) log_bytes: Option<u64>,
    /// Number of runs by status; empty where the file has to be migrated first.
    pub(crate) runs: BTreeMap<String, u64>,
    /// Number of parked runs.
    pub(crate) parked: Option<u64>,
    /// The workers.
    pub(crate) workers: Vec<WorkerReport>,
}

/// A worker.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkerReport {
    /// Its id.
    pub(crate) id: String,
    /// How many runs it holds.
    pub(crate) runs: u64,
    /// Whether its process has died.
    pub(crate) dead: bool,
}

/// `db migrate`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Migrated {
    /// Kind and place of the store.
    pub(crate) store: String,
    /// Version before.
    pub(crate) from: Option<u32>,
    /// Version now.
    pub(crate) to: Option<u32>,
}

/// `db prune`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Pruned {
    /// Whether nothing was deleted.
    pub(crate) dry_run: bool,
    /// Runs that were deleted; with `--dry-run`, that would be.
    pub(crate) deleted: u64,
    /// Runs that were kept because their parents are open.
    pub(crate) held: u64,
    /// Runs that the program's own hook kept. It is not asked with `--dry-run`.
    pub(crate) kept: u64,
}

/// `db backup` and `db restore`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Copied {
    /// The file that was made, or replaced.
    pub(crate) file: String,
    /// Its length in bytes.
    pub(crate) bytes: u64,
    /// Number of its runs.
    pub(crate) runs: u64,
    /// When a run in it was changed last: what happened later is not in it.
    pub(crate) newest: Option<String>,
    /// Where the file is that was replaced.
    pub(crate) replaced: Option<String>,
    /// Where the logs are that lay there and do not belong to the file.
    pub(crate) logs: Vec<String>,
}

/// `db check`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Integrity {
    /// Runs that were read.
    pub(crate) runs: u64,
    /// Frames whose hash follows from those before.
    pub(crate) frames: u64,
    /// Events in them.
    pub(crate) events: u64,
    /// Large values with the hash that is their name.
    pub(crate) values: u64,
    /// Runs that could not be read for want of a key.
    pub(crate) encoded: u64,
    /// What is wrong.
    pub(crate) problems: Vec<Broken>,
}

/// What is wrong with a run, or with the file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Broken {
    /// The run, as its row names it; `null` where it is not about one.
    pub(crate) run: Option<String>,
    /// Position in its journal.
    pub(crate) position: Option<u64>,
    /// What is wrong there.
    pub(crate) reason: String,
}

/// `evidence export` and `evidence verify`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EvidenceOutcome {
    /// The file.
    pub(crate) file: String,
    /// The run.
    pub(crate) run: String,
    /// Its workflow.
    pub(crate) workflow: String,
    /// How it stood.
    pub(crate) status: String,
    /// Position of its first event: more than 0 where the run continued as new.
    pub(crate) begins: u64,
    /// Events of its history.
    pub(crate) events: u64,
    /// Encoded frames of its history: what they say is a claim of who made the file.
    pub(crate) encoded: u64,
    /// Hash of the history. Note it where nobody can change it.
    pub(crate) tip: String,
    /// Who decided what.
    pub(crate) decisions: Vec<DecisionReport>,
    /// What the replay said when the file was made: a claim of who made it.
    pub(crate) replay: String,
    /// Whether it said that the code fits: a claim, too.
    pub(crate) replay_fits: bool,
    /// What does not hold.
    pub(crate) problems: Vec<String>,
}

/// What somebody decided.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DecisionReport {
    /// When.
    pub(crate) at: String,
    /// Kind of the event.
    pub(crate) kind: String,
    /// Who.
    pub(crate) actor: String,
    /// The command that it is about.
    pub(crate) command: Option<String>,
    /// Digest of the arguments that the command is called with from then on.
    pub(crate) digest: Option<String>,
    /// It stands in an encoded frame, so that who made the file claims it.
    pub(crate) claimed: bool,
}

/// `web` and `dev`.
#[cfg(feature = "web")]
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConsoleAddress {
    /// The address that opens it, once.
    pub(crate) url: String,
}

/// `doctor`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    /// What was looked at.
    pub(crate) findings: Vec<Finding>,
    /// How many of them are problems.
    pub(crate) problems: usize,
}

/// One thing that `doctor` looked at.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Finding {
    /// ok, note or problem.
    pub(crate) level: Level,
    /// What was looked at.
    pub(crate) about: String,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it.
    pub(crate) fix: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// To be mended.
    Problem,
}
