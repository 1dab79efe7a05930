//! The list of open waits: what a run waits for, as a store keeps it beside the journal.
//!
//! Promise: a row is written in the transaction of the append that opens or closes its wait, so that the list says what
//! the journals say and reading it reads none of them.

use std::fmt;

use jiff::Timestamp;

use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::payload::Payload;
use crate::vocabulary::waiting::Waiting;

/// One open wait of a run, as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWait {
    /// The command that waits. A run has at most one open wait of a command.
    pub command: CommandId,
    /// What it waits for.
    pub waiting: Waiting,
    /// Its name: of the signal, of the step, of the matter, or the question's text.
    pub name: String,
    /// Since when, by the clock of the worker that appended it.
    pub since: Timestamp,
    /// When it expires, fires, or the next attempt is due.
    pub until: Option<Timestamp>,
    /// Where in the source it is awaited, `file:line`.
    pub site: Option<String>,
    /// What else is known of it, as JSON: the engine's own, opaque to stores.
    pub detail: Payload,
}

/// A change of the list of open waits, written with the append that causes it.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitChange {
    /// The wait is open; it replaces what the run's list has of its command, in the same place.
    Opened(Box<OpenWait>),
    /// The command does not wait any more. Ignored where the list has nothing of it.
    Closed(CommandId),
}

/// Which open waits to list. The default lists all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitFilter {
    /// Only waits of these kinds; empty for any.
    pub kinds: Vec<Waiting>,
    /// Only waits of this name; `None` for any.
    pub name: Option<String>,
    /// Only waits of runs of this workflow; `None` for any.
    pub workflow: Option<String>,
    /// Only waits of this run; `None` for any.
    pub run: Option<RunId>,
    /// Only waits behind this place; see [`ListedWait::place`].
    pub after: Option<WaitPlace>,
    /// The most waits to return; 0 for all.
    pub limit: usize,
}

impl WaitFilter {
    /// Waits that a person, an operator or another system ends.
    ///
    /// ```
    /// use aether_core::store::WaitFilter;
    /// use aether_core::view::pending::Waiting;
    /// let inbox = WaitFilter::for_reply().workflow("claim").limit(50);
    /// assert!(inbox.kinds.contains(&Waiting::Approval) && !inbox.kinds.contains(&Waiting::Timer));
    /// ```
    pub fn for_reply() -> Self {
        let kinds = Waiting::all().filter(|kind| kind.is_for_reply()).collect();
        Self { kinds, ..Self::default() }
    }

    /// Only waits of this kind; called again, of these kinds.
    #[must_use]
    pub fn kind(mut self, kind: Waiting) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Only waits of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only waits of runs of this workflow.
    #[must_use]
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// Only waits of this run.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Only waits behind this place: the next page.
    #[must_use]
    pub fn after(mut self, place: WaitPlace) -> Self {
        self.after = Some(place);
        self
    }

    /// At most so many; 0 for all.
    #[must_use]
    pub fn limit(mut self, waits: usize) -> Self {
        self.limit = waits;
        self
    }

    /// Whether a wait of `run`, of `workflow`, passes the filter, its place aside.
    pub fn lets_through(&self, run: &RunId, workflow: &str, wait: &OpenWait) -> bool {
        self.run.as_ref().is_none_or(|only| only == run)
            && (self.kinds.is_empty() || self.kinds.contains(&wait.waiting))
            && self.name.as_ref().is_none_or(|name| wait.name == *name)
            && self.workflow.as_ref().is_none_or(|name| workflow == name)
    }
}

/// A place in the list of open waits: where the next page begins. Keeps its meaning while waits open and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitPlace(u64);

impl WaitPlace {
    /// For authors of stores: the place with this number. Numbers rise in the order in which waits are listed.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for WaitPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::str::FromStr for WaitPlace {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// One row of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedWait {
    /// Its place: a page that ends with this wait is followed by [`WaitFilter::after`] this place.
    pub place: WaitPlace,
    /// The run that waits.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: String,
    /// Whether the run is parked: a reply is kept, and takes effect when code that the run fits resumes it.
    pub parked: bool,
    /// The wait.
    pub wait: OpenWait,
}
