//! The right to claim and create runs, and to write for the engine itself, which a shutdown waits for.
//!
//! Promise: whoever owns a run of this worker that is not among the active ones holds an admission that began before it
//! owned the run, or failed. A task that has an admission takes no second one: a shutdown that waits in between would stop
//! both.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use tokio::sync::OwnedRwLockReadGuard;

use crate::sched::{Mutex, SharedLock};

/// Read-locked by every claim and creation until its runs are launched or released; a shutdown write-locks it, and so waits
/// for those under way.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    lock: Arc<SharedLock<()>>,
    numbers: Arc<Mutex<Numbers>>,
}

#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    open: BTreeSet<u64>,
}

/// An admission; it ends with its last clone.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    _open: Arc<Open>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    numbers: Arc<Mutex<Numbers>>,
    _lock: OwnedRwLockReadGuard<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&self.number);
    }
}

impl Admissions {
    /// Begins one, as soon as no shutdown waits for those before it.
    pub(super) async fn begin(&self) -> Admission {
        let lock = Arc::clone(&self.lock).read_owned().await;
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.next;
        numbers.next += 1;
        numbers.open.insert(number);
        drop(numbers);
        Admission { _open: Arc::new(Open { number, numbers: Arc::clone(&self.numbers), _lock: lock }) }
    }

    /// Waits until none is left.
    pub(super) async fn ended(&self) {
        drop(self.lock.write().await);
    }

    /// The number that the next one gets.
    pub(super) fn next(&self) -> u64 {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).next
    }

    /// Whether all before this number have ended.
    pub(super) fn ended_before(&self, number: u64) -> bool {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.open.first().is_none_or(|first| *first >= number)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn those_before_a_number_have_ended_when_all_their_clones_have() {
        let admissions = Admissions::default();
        let begin = || admissions.begin().now_or_never().unwrap();
        let (first, second) = (begin(), begin());
        assert_eq!(admissions.next(), 2);
        let clone = first.clone();
        drop(first);
        assert!(admissions.ended_before(0) && !admissions.ended_before(1));
        assert!(admissions.ended().now_or_never().is_none());
        drop(clone);
        assert!(admissions.ended_before(1) && !admissions.ended_before(2));
        drop(second);
        assert!(admissions.ended_before(2) && admissions.ended().now_or_never().is_some());
    }
}
