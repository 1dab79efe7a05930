//! The timers of a schedule.

use std::task::Waker;

use super::with;

/// Wakes `waker` after `span` microseconds; again when the wall clock leaps, if it follows that.
pub(crate) fn insert(span: u64, on_wall: bool, waker: Waker) -> Option<(u64, u64)> {
    with(|sim| {
        sim.timer_no += 1;
        let key = (sim.now.saturating_add(span), sim.timer_no);
        sim.timers.insert(key, waker);
        if on_wall {
            sim.on_wall.insert(key);
        }
        key
    })
}

/// Removes a timer, if there is one.
pub(crate) fn remove(key: Option<(u64, u64)>) {
    // Its waker is dropped outside: what that holds may have a destructor.
    let _waker = key.and_then(|key| {
        with(|sim| {
            sim.on_wall.remove(&key);
            sim.timers.remove(&key)
        })
    });
}
