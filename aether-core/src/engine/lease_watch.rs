//! How long other workers have been silent, as this one has seen it.
//!
//! Promise: a worker counts as silent only after a whole lease in which it did not renew although it could have: this
//! worker wrote to the same store meanwhile. Time is measured by a monotonic clock, and a gap in which this worker itself
//! did not look counts for little, so that a pause of all of them costs nobody a run.

use std::time::Duration;

use crate::sched::{HashMap, mutated};
use crate::store::workers::{SilentWorker, WorkerRecord};
use crate::vocabulary::id::WorkerId;

/// The shortest time between two looks.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

/// How long other workers have been silent, as this one has seen it: by worker and number of renewals, because a store of
/// several databases may list a worker with a number for each.
#[derive(Debug, Default)]
pub(super) struct LeaseWatch(HashMap<(WorkerId, u64), Sighting>);

#[derive(Debug)]
struct Sighting {
    lease: Duration,
    /// For how long the number of renewals is known not to have changed.
    silent: Duration,
    /// When the newest look ended.
    at: Duration,
}

impl LeaseWatch {
    /// Takes in what a look found that began at `from` and ended at `until`, after a renewal of this worker.
    pub(super) fn look(
        &mut self,
        workers: Vec<WorkerRecord>,
        from: Duration,
        until: Duration,
        own_lease: Duration,
    ) {
        let former = std::mem::take(&mut self.0);
        self.0 = workers
            .into_iter()
            .map(|WorkerRecord { id, renewals, lease }| {
                let lease = lease.unwrap_or(own_lease);
                let seen = (id, renewals);
                let silent = match former.get(&seen) {
                    // From the end of one look to the beginning of the next. No gap counts for more than a third of a
                    // lease: after a pause of its own, this worker looks again before it takes anything.
                    Some(known) => {
                        let gap = from.saturating_sub(known.at);
                        known.silent
                            + if mutated("leases-by-the-wall-clock") { gap } else { gap.min(lease / 3) }
                    }
                    None => Duration::ZERO,
                };
                (seen, Sighting { lease, silent, at: until })
            })
            .collect();
    }

    /// Time until `now` does not count: the store could not be written or read, by the others neither.
    pub(super) fn pause(&mut self, now: Duration) {
        self.0.values_mut().for_each(|sighting| sighting.at = now);
    }

    pub(super) fn sees_others(&self) -> bool {
        !self.0.is_empty()
    }

    /// How long each worker has been silent, and its lease: where it has several numbers, by the oldest of them.
    pub(super) fn silences(&self) -> HashMap<WorkerId, (Duration, Duration)> {
        let mut silences = HashMap::default();
        for ((id, _), sighting) in &self.0 {
            let silence = silences.entry(id.clone()).or_insert((sighting.silent, sighting.lease));
            *silence = (*silence).max((sighting.silent, sighting.lease));
        }
        silences
    }

    /// How often to look, so that none of the leases is over before it was looked at several times; `None` without others.
    pub(super) fn period(&self) -> Option<Duration> {
        self.0.values().map(|sighting| sighting.lease / 4).min().map(|period| period.max(SHORTEST_PERIOD))
    }

    /// Workers that have been silent for a whole lease.
    pub(super) fn silent(&self) -> Vec<SilentWorker> {
        let silent = self.0.iter().filter(|(_, sighting)| sighting.silent >= sighting.lease);
        silent.map(|((id, renewals), _)| SilentWorker { id: id.clone(), renewals: *renewals }).collect()
    }

    /// Whether a worker has been silent for two leases: for a whole one its runs could be claimed, and were not.
    pub(super) fn is_long_silent(&self, id: &WorkerId) -> bool {
        let is_long = |sighting: &Sighting| sighting.silent >= sighting.lease.saturating_mul(2);
        self.0.iter().any(|((seen, _), sighting)| seen == id && is_long(sighting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(12);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn seen(renewals: u64) -> Vec<WorkerRecord> {
        vec![WorkerRecord { id: WorkerId::from("a".to_owned()), renewals, lease: Some(LEASE) }]
    }

    fn silent_after(looks: &[(u64, u64)]) -> bool {
        let mut watch = LeaseWatch::default();
        for (at, renewals) in looks {
            watch.look(seen(*renewals), seconds(*at), seconds(*at), LEASE);
        }
        !watch.silent().is_empty()
    }

    #[test]
    fn a_worker_is_silent_after_a_whole_lease_without_a_renewal() {
        assert!(!silent_after(&[(0, 1), (3, 1), (6, 1), (9, 1)]));
        assert!(silent_after(&[(0, 1), (3, 1), (6, 1), (9, 1), (12, 1)]));
        assert!(!silent_after(&[(0, 1), (3, 1), (6, 1), (9, 2), (12, 2), (18, 2)]), "it renewed meanwhile");
    }

    /// As with several databases, one of which it does not reach.
    #[test]
    fn a_worker_with_two_numbers_is_silent_by_the_one_that_does_not_rise() {
        let (mut watch, id) = (LeaseWatch::default(), WorkerId::from("a".to_owned()));
        let silent = |watch: &LeaseWatch| {
            let mut numbers: Vec<_> = watch.silent().into_iter().map(|silent| silent.renewals).collect();
            numbers.sort_unstable();
            numbers
        };
        for n in 0..5 {
            watch.look([seen(7), seen(100 + n)].concat(), seconds(n * 3), seconds(n * 3), LEASE);
        }
        assert_eq!(silent(&watch), [7]);
        // It renews nowhere any more. What it holds by the older number may be there for good: nobody may be able to take it.
        for n in 5..9 {
            watch.look([seen(7), seen(104)].concat(), seconds(n * 3), seconds(n * 3), LEASE);
        }
        assert_eq!(silent(&watch), [7, 104]);
        assert_eq!(watch.silences().get(&id), Some(&(seconds(24), LEASE)));
    }

    #[test]
    fn a_lease_may_last_for_ever() {
        let (mut watch, id) = (LeaseWatch::default(), WorkerId::from("a".to_owned()));
        for at in [0, 3, 1 << 40] {
            let lasting = vec![WorkerRecord { id: id.clone(), renewals: 1, lease: Some(Duration::MAX) }];
            watch.look(lasting, seconds(at), seconds(at), Duration::MAX);
        }
        assert!(watch.silent().is_empty() && !watch.is_long_silent(&id) && watch.period().is_some());
    }

    #[test]
    fn the_runs_of_a_worker_could_be_claimed_for_a_lease_when_it_was_silent_for_two() {
        let mut watch = LeaseWatch::default();
        let id = WorkerId::from("a".to_owned());
        for at in (0..24).step_by(3) {
            watch.look(seen(1), seconds(at), seconds(at), LEASE);
            assert!(!watch.is_long_silent(&id), "after {at} s");
        }
        watch.look(seen(1), seconds(24), seconds(24), LEASE);
        assert!(watch.is_long_silent(&id) && !watch.is_long_silent(&WorkerId::from("b".to_owned())));
    }

    #[test]
    fn a_pause_of_the_one_that_watches_counts_for_a_third_of_a_lease() {
        assert!(!silent_after(&[(0, 1), (600, 1), (601, 1), (604, 1)]));
        assert!(silent_after(&[(0, 1), (600, 1), (604, 1), (608, 1)]));
    }

    #[test]
    fn time_in_which_the_store_took_no_write_does_not_count() {
        let mut watch = LeaseWatch::default();
        watch.look(seen(1), seconds(0), seconds(0), LEASE);
        for at in (3..30).step_by(3) {
            watch.pause(seconds(at));
        }
        watch.look(seen(1), seconds(30), seconds(30), LEASE);
        assert!(watch.silent().is_empty());
    }

    #[test]
    fn a_worker_that_holds_nothing_any_more_is_forgotten() {
        let mut watch = LeaseWatch::default();
        watch.look(seen(1), seconds(0), seconds(0), LEASE);
        watch.look(Vec::new(), seconds(3), seconds(3), LEASE);
        watch.look(seen(1), seconds(90), seconds(90), LEASE);
        assert!(watch.silent().is_empty());
    }
}
