//! Items of an `each` that history holds commands of and that have not begun: under a lower limit than the recorded one they
//! wait for a slot that only they would free.

use std::task::Waker;

use crate::sched::HashMap;

/// What waits for history to need one more item, by the place of the `each`.
#[derive(Debug, Default)]
pub(super) struct WaitingItems(HashMap<Box<str>, Waiting>);

#[derive(Debug)]
struct Waiting {
    /// How many items have begun.
    begun: usize,
    waker: Waker,
    released: bool,
}

impl WaitingItems {
    /// Whether the next item of the `each` at `place` is needed; else remembers whom to wake when it is.
    pub(super) fn is_needed(&mut self, place: &str, begun: usize, waker: &Waker) -> bool {
        // One that was released and has not begun stays released: to release it again would wake its caller without end.
        let released = self.0.get(place).is_some_and(|former| former.released && former.begun == begun);
        self.0.insert(place.into(), Waiting { begun, waker: waker.clone(), released });
        released
    }

    /// Releases the item of the `each` that `command` is in, where it waits. Returns whether it did.
    pub(super) fn release(&mut self, command: &str) -> bool {
        let mut released = false;
        for (place, waiting) in &mut self.0 {
            let needed = item_of(command, place).is_some_and(|item| item >= waiting.begun);
            if needed && !waiting.released {
                waiting.released = true;
                waiting.waker.wake_by_ref();
                released = true;
            }
        }
        released
    }
}

/// The number of the item of the `each` at `place` that `command` is in.
pub(super) fn item_of(command: &str, place: &str) -> Option<usize> {
    command.strip_prefix(place)?.strip_prefix(".i")?.split('.').next()?.parse().ok()
}
