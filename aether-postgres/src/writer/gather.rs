//! How long a small batch is kept open for runs that are about to append.
//!
//! Promise: a batch waits for runs only while all of them came in time when it was tried before, and for no longer than the
//! last batch took.
//!
//! Whatever its size, a transaction costs the server a write to the disk and the start of its statements. Runs whose appends
//! were just answered mostly append again within a millisecond; written together they take one transaction, and not two that
//! each hold half of them. Of many runs two halves are as good: one computes while the server writes the other.

use std::time::{Duration, Instant};

/// More runs are told while the server works on what the others have queued.
const FEW: usize = 32;
/// No batch is kept open for longer.
const LONGEST: Duration = Duration::from_millis(5);
/// After a batch that was kept open in vain, at most so many are not.
const MOST_SKIPPED: u32 = 64;

/// Which appends the next batch waits for.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// How many operations were queued before the runs were told.
    before: usize,
    /// How many runs are about to append.
    expected: usize,
    /// How many of them have.
    arrived: usize,
    /// Until when they are waited for.
    until: Option<Instant>,
    /// So many batches are not kept open.
    skip: u32,
    /// How many were skipped after the last one that was kept open in vain.
    skipped: u32,
}

impl Gather {
    /// Whether the next batch is to wait for so many runs, which are told next of a batch that took so long; `queued`
    /// operations are there already.
    pub(super) fn begin(&mut self, expected: usize, queued: usize, took: Duration) -> bool {
        self.until = None;
        if expected == 0 || expected + queued > FEW {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        (self.before, self.expected, self.arrived) = (queued, expected, 0);
        self.until = Some(Instant::now() + took.min(LONGEST));
        true
    }

    /// An append was taken from the queue as the operation of this number, from 1.
    pub(super) fn note(&mut self, number: usize, is_awaited: bool) {
        self.arrived += usize::from(is_awaited && number > self.before);
    }

    /// Until when the batch stays open; `None` where it waits for nobody.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until.filter(|_| self.arrived < self.expected)
    }

    /// The batch is complete.
    pub(super) fn end(&mut self) {
        if self.until.take().is_some() {
            let in_vain = self.arrived < self.expected;
            self.skipped = if in_vain { (self.skipped * 2).clamp(1, MOST_SKIPPED) } else { 0 };
            self.skip = self.skipped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_secs(3600);

    #[test]
    fn it_waits_for_those_who_were_told_and_not_for_who_was_there_before() {
        let mut gather = Gather::default();
        assert!(gather.begin(2, 1, TOOK));
        for (number, is_awaited) in [(1, true), (2, false), (3, true)] {
            gather.note(number, is_awaited);
            assert!(gather.until().is_some());
        }
        gather.note(4, true);
        assert_eq!(gather.until(), None);
    }

    #[test]
    fn no_wait_is_longer_than_the_last_batch_took() {
        for (took, most) in [(Duration::ZERO, Duration::ZERO), (TOOK, LONGEST)] {
            let mut gather = Gather::default();
            assert!(gather.begin(1, 0, took));
            let until = gather.until().unwrap();
            assert!(until <= Instant::now() + most, "{took:?}");
        }
    }

    #[test]
    fn who_comes_late_again_and_again_is_waited_for_ever_more_rarely() {
        let mut gather = Gather::default();
        let mut waited = 0;
        for _ in 0..1000 {
            waited += u32::from(gather.begin(3, 0, TOOK));
            gather.note(1, true);
            gather.note(2, true);
            gather.end();
        }
        // 1 + 1 + 2 + 4 + .. + 64, then one in 65.
        assert!((7..=21).contains(&waited), "{waited}");
        // Those who come in time are waited for each time again.
        while !gather.begin(1, 0, TOOK) {}
        gather.note(1, true);
        gather.end();
        assert!(gather.begin(1, 0, TOOK));
    }

    #[test]
    fn nobody_is_waited_for_where_many_are_on_their_way() {
        let mut gather = Gather::default();
        assert!(!gather.begin(0, 0, TOOK) && !gather.begin(FEW, 1, TOOK) && !gather.begin(FEW + 1, 0, TOOK));
        assert_eq!(gather.until(), None);
        gather.end();
        assert!(gather.begin(FEW, 0, TOOK));
    }
}
