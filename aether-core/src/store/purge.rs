//! What crosses the border of a store when ended runs are deleted.
//!
//! Promise: a run is deleted only where [`Store::purge`](crate::engine::retention::purge) answers [`Purged::Deleted`].

use jiff::Timestamp;

use crate::vocabulary::contract::Status;
use crate::vocabulary::id::RunId;

/// Which ended runs to list.
#[derive(Clone, Debug, Default)]
pub struct EndedRuns {
    /// For each terminal status: runs that ended before this time.
    pub before: Vec<(Status, Timestamp)>,
    /// Only runs behind this place of a former answer; 0 to begin with.
    pub after: u64,
    /// At most so many.
    pub limit: usize,
}

/// What came of [`Store::purge`](crate::engine::retention::purge).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purged {
    /// It is gone.
    Deleted,
    /// There was no such run.
    Unknown,
    /// It has not ended; nothing was done.
    Open(Status),
    /// The run that started it has not ended; nothing was done.
    ParentOpen(RunId),
}
