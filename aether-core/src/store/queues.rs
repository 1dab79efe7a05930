//! Queues as a store keeps them: limits, where a run stands in its queue, and keyed starts.
//!
//! Promise: plain values. What is taken when is decided in `queueing`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::vocabulary::payload::Payload;
use crate::vocabulary::queue::{LimitPattern, QueueError};

/// What a limit restricts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// How many runs execute a turn at the same time. A run that waits does not count.
    Running(u32),
    /// How many runs begin in any span of this length.
    Starts {
        /// How many.
        n: u32,
        /// Length of the span.
        per: Duration,
    },
    /// How many runs may be started and not ended. One more is refused at its start.
    Open(u32),
    /// No limit: how many turns a key gets for each turn of a key of weight 1.
    Weight(u32),
}

impl LimitKind {
    /// Its name, by which a limit is removed. One pattern has at most one limit of each name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running(_) => "running",
            Self::Starts { .. } => "starts",
            Self::Open(_) => "open",
            Self::Weight(_) => "weight",
        }
    }

    /// The kind of this name with its numbers, as a store keeps them; `None` for a name that this build does not know.
    pub fn parse(name: &str, n: u32, per: Option<Duration>) -> Option<Self> {
        match (name, per) {
            ("running", _) => Some(Self::Running(n)),
            ("starts", Some(per)) => Some(Self::Starts { n, per }),
            ("open", _) => Some(Self::Open(n)),
            ("weight", _) => Some(Self::Weight(n)),
            _ => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Running(n) | Self::Starts { n, .. } | Self::Open(n) | Self::Weight(n) => n,
        }
    }

    /// The span that it counts in.
    pub const fn per(self) -> Option<Duration> {
        match self {
            Self::Starts { per, .. } => Some(per),
            _ => None,
        }
    }
}

/// A limit: which runs, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Which runs it counts together.
    pub pattern: LimitPattern,
    /// What it restricts.
    pub kind: LimitKind,
}

impl Limit {
    /// Checks a limit.
    ///
    /// # Errors
    /// [`QueueError`] when the pattern is not usable, a span is empty or longer than a year, or a weight is not between 1
    /// and 1,000. A limit of 0 is one that lets nothing begin: a queue that is paused.
    pub fn new(pattern: impl Into<String>, kind: LimitKind) -> Result<Self, QueueError> {
        let pattern = LimitPattern::new(pattern)?;
        let year = Duration::from_secs(366 * 86_400);
        let reason = match kind {
            LimitKind::Starts { per, .. } if per.is_zero() || per > year => {
                Some("the span of a limit of starts is longer than nothing and at most a year")
            }
            LimitKind::Starts { n, .. } if n > 1_000_000 => Some("at most 1,000,000 starts are counted"),
            LimitKind::Weight(n) if !(1..=1_000).contains(&n) => Some("a weight is between 1 and 1,000"),
            _ => None,
        };
        match reason {
            Some(reason) => Err(QueueError::Limit { pattern: pattern.into(), reason }),
            None => Ok(Self { pattern, kind }),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = &self.pattern;
        match self.kind {
            LimitKind::Running(n) => write!(f, "{pattern}: {n} running"),
            LimitKind::Starts { n, per } => write!(f, "{pattern}: {n} starts in {per:?}"),
            LimitKind::Open(n) => write!(f, "{pattern}: {n} open"),
            LimitKind::Weight(n) => write!(f, "{pattern}: weight {n}"),
        }
    }
}

/// Where a run of a queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// When its first turn was granted; `None` before. A lease on a run of a queue without this time allows only to end it.
    pub started_at: Option<Timestamp>,
    /// Since when it waits for a turn; `None` while it has one, and while it waits for something else.
    pub waits_since: Option<Timestamp>,
}

/// Why a run of a queue has no turn yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Since when it waits for a turn.
    pub since: Timestamp,
    /// How many runs of its key come before it, counted up to [`QueuePosition::MOST`].
    pub ahead: u64,
    /// The limit that keeps the next run of its key back; `None` where only its order does.
    pub limit: Option<Limit>,
}

impl QueuePosition {
    /// How many runs are counted at most.
    pub const MOST: u64 = 1_000;
}

/// A keyed start: which run holds a key, and what is gathered for it. Written by compare-and-swap.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyedStart {
    /// Kind, workflow and key: unique in the store.
    pub name: String,
    /// Name of the workflow, by which workers find what they can complete.
    pub workflow: String,
    /// When somebody must look at it.
    pub due_at: Timestamp,
    /// What the engine keeps, as JSON.
    pub record: Payload,
    /// Rises with every write, from 1.
    pub revision: u64,
}

/// Which due keyed starts to list.
#[derive(Clone, Debug)]
pub struct DueStarts {
    /// Only those that are due then.
    pub now: Timestamp,
    /// Only those of these workflows.
    pub workflows: Arc<[String]>,
    /// Only those behind this one: when it is due, and its name.
    pub after: Option<(Timestamp, String)>,
    /// The most to list.
    pub limit: usize,
}
