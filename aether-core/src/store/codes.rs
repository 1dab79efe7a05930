//! What a store keeps about code: which runs no code of a worker records, and the definitions of the code that it has seen.
//!
//! Promise: plain values.

use jiff::Timestamp;

use crate::store::filter::Cursor;
use crate::store::workers::SilentWorker;
use crate::vocabulary::id::{CodeId, Epoch, RunId};
use crate::vocabulary::payload::Payload;

/// Which runs of other code to list: open runs that none of `codes` records, and parked ones. See
/// [`Store::foreign`](crate::store::Store::foreign).
#[derive(Clone, Debug)]
pub struct ForeignRuns {
    /// The codes of the worker that asks. The unknown code is one like any other.
    pub codes: Vec<CodeId>,
    /// Only runs that a claim at this time could get now: due, and held by no worker or by one of these silent ones, as in
    /// [`ClaimRequest::silent`](crate::store::ClaimRequest::silent); parked runs are left out. `None`: also those that are not due or held.
    pub due: Option<(Timestamp, Vec<SilentWorker>)>,
    /// Only runs with a later [`RunRecord::place`](crate::store::RunRecord::place): that of the last run of the page before.
    pub after: Option<Cursor>,
    /// The most runs to list; 0 for all.
    pub limit: usize,
}

/// A run that is to get another code: see [`Store::recode`](crate::store::Store::recode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recode {
    /// The run.
    pub run: RunId,
    /// Its epoch: whoever claims it meanwhile raises that.
    pub epoch: Epoch,
    /// Its code until now.
    pub was: CodeId,
    /// Its new code.
    pub code: CodeId,
}

/// The definition of the code that records runs, kept once per code.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionRecord {
    /// The code that it defines.
    pub code: CodeId,
    /// Name of the workflow.
    pub workflow: String,
    /// Version of the definition.
    pub version: u32,
    /// The definition as JSON: the engine's own, opaque to stores.
    pub definition: Payload,
    /// When an engine with this code first started on the store, by that engine's clock.
    pub first_seen: Timestamp,
}
