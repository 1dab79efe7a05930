//! The request and the answer when ended runs are deleted from a store.
//!
//! Promise: a run is deleted only where [`Store::purge`](crate::store::api::Store::purge) answers [`Purged::Deleted`].

use jiff::Timestamp;

use crate::vocabulary::contract::Status;
use crate::vocabulary::id::RunId;

/// Which ended runs to list.
#[derive(Clone, Debug, Default)]
pub struct EndedRuns {
    /// For each terminal status: runs that ended before this time.
    pub before: Vec<(Status, Timestamp)>,
    /// Only runs after this place, taken from the previous page; 0 for the first page.
    pub after: u64,
    /// The most runs to return.
    pub limit: usize,
}

/// Result of [`Store::purge`](crate::store::api::Store::purge).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purged {
    /// The run is deleted.
    Deleted,
    /// There is no such run.
    Unknown,
    /// The run has this status and has not ended; nothing was deleted.
    Open(Status),
    /// Its parent, this run, has not ended and may still read the result; nothing was deleted.
    ParentOpen(RunId),
}
