//! Code and runs: graphs, verifications, checks.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// `graph`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Graph {
    /// Name of the workflow.
    pub(crate) workflow: String,
    /// Its version.
    pub(crate) version: u32,
    /// Where it is known from: `program`, or `store`.
    pub(crate) known_from: String,
    /// Its definition: states, edges, marks, in the form of `aether::definition::Definition`.
    pub(crate) definition: Value,
}

/// `verify`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Verdicts {
    /// The runs, in the order in which they were named.
    pub(crate) runs: Vec<VerdictReport>,
}

/// Whether one run fits its code.
#[derive(Serialize, JsonSchema)]
pub(crate) struct VerdictReport {
    /// The run.
    pub(crate) run: String,
    /// Whether code and history fit.
    pub(crate) fits: bool,
    /// Number of recorded results that the code asked for.
    pub(crate) matched: Option<u64>,
    /// Number of recorded results.
    pub(crate) recorded: Option<u64>,
    /// In a sentence.
    pub(crate) text: String,
}

/// `check`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Check {
    /// How many open runs fit and were recorded by this very code.
    pub(crate) fits: usize,
    /// How many were recorded by other code, and fit.
    pub(crate) adopts: usize,
    /// How many would be parked.
    pub(crate) parks: usize,
    /// How many would fail.
    pub(crate) fails: usize,
    /// How many could not be replayed.
    pub(crate) unreadable: usize,
    /// Every run that was looked at.
    pub(crate) runs: Vec<CheckedRun>,
}

/// What this program would do with one run.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CheckedRun {
    /// The run.
    pub(crate) run: String,
    /// Name of its workflow.
    pub(crate) workflow: String,
    /// fits, adopts, parks, fails or unreadable.
    pub(crate) verdict: String,
    /// The difference.
    pub(crate) why: Option<String>,
    /// Place in the source at which it differs, as it was recorded.
    pub(crate) recorded: Option<String>,
    /// Place in the source at which it differs, as it is now.
    pub(crate) requested: Option<String>,
}
