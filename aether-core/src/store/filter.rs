//! Which runs to list, and the place of a run in the list.
//!
//! Promise: pages that follow each other by [`Cursor`] hold each run once, also while runs are created, end or are
//! purged: a run's place never changes, and a later run has a later one.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CodeId, RunId};

/// Place of a run in the order in which the runs of a store were created. Displays as a number and parses again, so that
/// it can be part of a link to the next page.
///
/// ```
/// use aether_core::store::Cursor;
/// let cursor: Cursor = "42".parse()?;
/// assert_eq!(cursor.to_string(), "42");
/// # Ok::<(), aether_core::store::CursorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(u64);

impl Cursor {
    /// For stores: the place with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// For stores: the number of the place.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text is not a [`Cursor`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the place of a run: expected a number, as `Cursor` displays it")]
pub struct CursorError {
    text: String,
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let start = || text.chars().take(32).collect();
        text.parse().map(Self).map_err(|_| CursorError { text: start() })
    }
}

/// Which runs to list. The default lists all. What is given must all hold.
///
/// ```
/// use aether_core::contract::Status;
/// use aether_core::store::RunFilter;
/// let filter = RunFilter::new().workflow("claim").status(Status::Failed).label("customer", "acme").limit(50);
/// assert_eq!(filter.limit, 50);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    /// Only runs of one of these statuses; empty for any.
    pub statuses: Vec<Status>,
    /// Only runs of this workflow; `None` for any.
    pub workflow: Option<String>,
    /// Only runs that were created with this version of their workflow's definition; `None` for any.
    pub version: Option<u32>,
    /// Only runs that this code records; `None` for any.
    pub code: Option<CodeId>,
    /// Only runs that are parked, or only runs that are not; `None` for both.
    pub parked: Option<bool>,
    /// Only runs that have all of these labels, as key and value.
    pub labels: Vec<(String, String)>,
    /// Only runs whose ids begin with this text; `None` for any.
    pub id_prefix: Option<String>,
    /// Only runs whose ids contain this text; `None` for any. No index helps: combine it with another filter where there
    /// are many runs.
    pub id_contains: Option<String>,
    /// Only runs of this queue; `None` for any.
    pub queue: Option<String>,
    /// Only runs whose key in their queue this is, or begins with its segments; `None` for any.
    pub queue_key: Option<String>,
    /// Only runs that this run started; `None` for any.
    pub parent: Option<RunId>,
    /// Only runs that were created at this time or later; `None` for any.
    pub created_after: Option<Timestamp>,
    /// Only runs that were created before this time; `None` for any.
    pub created_before: Option<Timestamp>,
    /// Only runs that come after this place in the list, which is newest first: the place of the last run of the page
    /// before. `None` for the first page. Not for counting.
    pub after: Option<Cursor>,
    /// The most runs to return, newest first; 0 for all. Not for counting.
    pub limit: usize,
}

impl RunFilter {
    /// All runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs of this status; called again, also of that one.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        if !self.statuses.contains(&status) {
            self.statuses.push(status);
        }
        self
    }

    /// Runs of any of these statuses.
    #[must_use]
    pub fn statuses(self, statuses: impl IntoIterator<Item = Status>) -> Self {
        statuses.into_iter().fold(self, Self::status)
    }

    /// Runs that have not ended.
    #[must_use]
    pub fn open(self) -> Self {
        self.statuses([Status::Pending, Status::Running, Status::Waiting])
    }

    /// Runs of this workflow.
    #[must_use]
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// Runs that were created with this version of their workflow's definition.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Runs that this code records.
    #[must_use]
    pub fn code(mut self, code: CodeId) -> Self {
        self.code = Some(code);
        self
    }

    /// Runs that wait for code that they fit (`true`), or that do not (`false`).
    #[must_use]
    pub fn parked(mut self, parked: bool) -> Self {
        self.parked = Some(parked);
        self
    }

    /// Runs that have this label; called again, and that one.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// Runs whose ids begin with `prefix`.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Runs whose ids contain `text`.
    #[must_use]
    pub fn id_contains(mut self, text: impl Into<String>) -> Self {
        self.id_contains = Some(text.into());
        self
    }

    /// Runs of this queue.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = Some(name.into());
        self
    }

    /// Runs of queues whose key this is, or begins with its segments: `acme` also finds `acme/ann`.
    #[must_use]
    pub fn queue_key(mut self, key: impl Into<String>) -> Self {
        self.queue_key = Some(key.into());
        self
    }

    /// Runs that `parent` started.
    #[must_use]
    pub fn parent(mut self, parent: RunId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Runs that were created at `time` or later.
    #[must_use]
    pub fn created_after(mut self, time: Timestamp) -> Self {
        self.created_after = Some(time);
        self
    }

    /// Runs that were created before `time`.
    #[must_use]
    pub fn created_before(mut self, time: Timestamp) -> Self {
        self.created_before = Some(time);
        self
    }

    /// The page behind the run at `place`: [`RunRecord::place`](crate::store::records::RunRecord::place) of the last run of the page before.
    #[must_use]
    pub fn after(mut self, place: Cursor) -> Self {
        self.after = Some(place);
        self
    }

    /// At most so many runs; 0 for all.
    #[must_use]
    pub fn limit(mut self, runs: usize) -> Self {
        self.limit = runs;
        self
    }
}
