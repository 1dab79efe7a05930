//! What branches that run side by side ask of the run: that they begin together, and that items above a limit begin only
//! where history holds what they did.
//!
//! Promise: pieces of workflow code follow one another in a replay as they did in the first run, whatever was answered at once
//! and whatever took its time. A piece begins with an answer, and answers come in the recorded order; or with a branch, and
//! branches begin one after the other, before any of them is answered.

use std::task::{Context, Waker};

use crate::run::claim::Run;
use crate::vocabulary::id::CommandId;

/// Branches begin, until it is dropped: none of the run's effects is answered.
pub(crate) struct Beginning<'r>(&'r Run);

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.beginning = state.beginning.saturating_sub(1);
    }
}

impl Run {
    /// Branches are polled for the first time. Who does that polls them again behind it.
    pub(crate) fn begin_branches(&self) -> Beginning<'_> {
        self.lock().beginning += 1;
        Beginning(self)
    }

    /// Whether an effect waits until branches have begun; then it is polled again.
    pub(super) fn holds_back(&self, cx: &Context<'_>) -> bool {
        let holds_back = self.lock().beginning > 0;
        if holds_back {
            cx.waker().wake_by_ref();
        }
        holds_back
    }

    /// How many items of an `each`, from the first one on, history may hold commands of.
    pub(crate) fn begun_items(&self, each: &CommandId) -> usize {
        self.lock().history.items_of(each.place())
    }

    /// Whether the replay needs the next item of an `each`, of which `begun` have begun; else `waker` is woken when it does.
    pub(crate) fn needs_item(&self, each: &CommandId, begun: usize, waker: &Waker) -> bool {
        self.lock().history.needs_item(each.place(), begun, waker)
    }

    /// Lets an item begin above the limit of its `each`, if no part of the run can move without that: it began under a higher
    /// limit. Returns whether there was one.
    pub(crate) fn release_item(&self) -> bool {
        let released = {
            let mut state = self.lock();
            state.in_flight == 0 && !state.paused_for_operator && state.history.release_item()
        };
        if released {
            self.root.wake();
        }
        released
    }
}
