//! Which page of the steps of a run is wanted, and where a fold stands with it.
//!
//! Promise: while a journal is folded, the newest page is kept until the wanted one has come; then that one stays.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::vocabulary::id::{CommandId, IdempotencyKey};

/// Steps of a page, where nobody says how many: 200.
const SIZE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(199);

/// Which page of the steps of a run is wanted. Pages are counted in the order in which the steps first appear, and have 200
/// steps each unless [`StepPage::size`] says otherwise.
///
/// ```
/// use aether_core::view::StepPage;
/// let page = StepPage::last().size(50);
/// # let _ = page;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPage {
    size: NonZeroUsize,
    wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Wanted {
    Number(usize),
    With(CommandId),
    Last,
}

impl StepPage {
    /// The page of this number, from 1. The last one where there are fewer.
    pub fn number(number: usize) -> Self {
        Self { size: SIZE, wanted: Wanted::Number(number.max(1)) }
    }

    /// The page with the step of `command`. The last one where there is no such step.
    pub fn with(command: CommandId) -> Self {
        Self { size: SIZE, wanted: Wanted::With(command) }
    }

    /// The last page.
    pub fn last() -> Self {
        Self { size: SIZE, wanted: Wanted::Last }
    }

    /// So many steps a page, at least one.
    #[must_use]
    pub fn size(self, steps: usize) -> Self {
        Self { size: NonZeroUsize::new(steps).unwrap_or(NonZeroUsize::MIN), ..self }
    }
}

/// What a view keeps while it is folded: the newest page, until the wanted one has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Window {
    page: StepPage,
    /// Number of the first step that is kept, from 0.
    pub(super) first: usize,
    is_found: bool,
    /// The keys of what is left out: people see none of them, whatever it stands in.
    pub(super) keys: BTreeSet<IdempotencyKey>,
}

impl Window {
    pub(super) fn new(page: StepPage) -> Self {
        Self { page, first: 0, is_found: false, keys: BTreeSet::new() }
    }

    /// The window at the beginning of a journal.
    pub(super) fn reset(self) -> Self {
        Self::new(self.page)
    }

    /// Whether the next step, of this number, is kept; it may begin a page, and then those before it are not any more.
    pub(super) fn take(&mut self, number: usize, command: &CommandId) -> bool {
        if self.is_found {
            return self.places().contains(&number);
        }
        let size = self.page.size;
        self.first = number - number % size;
        self.is_found = match &self.page.wanted {
            Wanted::Number(wanted) => self.first / size + 1 == *wanted,
            Wanted::With(wanted) => wanted == command,
            Wanted::Last => false,
        };
        true
    }

    /// Where its steps are among all.
    pub(super) fn places(&self) -> Range<usize> {
        self.first..self.first.saturating_add(self.page.size.get())
    }
}
