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
