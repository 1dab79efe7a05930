//! Keeping this worker's leases, and watching those of the others.
//!
//! Promise: another worker's run is taken over only after a whole lease in which it did not renew although it could have:
//! this worker wrote to the same store meanwhile. Time is measured by this worker's monotonic clock, and a gap in which
//! this worker itself did not look counts for little, so that a pause of all of them costs nobody a run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::engine::inner::Inner;
use crate::run::leases::RENEWAL_RETRY;
use crate::sched::{AtomicBool, HashMap, Notify};
use crate::store::workers::{LostRun, SilentWorker, WorkerRecord};
use crate::vocabulary::environment::Environment;
use crate::vocabulary::id::WorkerId;

/// Renews the leases until it is dropped.
#[derive(Debug)]
pub(super) struct Keeper(Arc<KeeperEnd>);

#[derive(Debug, Default)]
struct KeeperEnd {
    over: AtomicBool,
    changed: Notify,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }
}

impl Keeper {
    /// Starts to renew. The caller holds it for as long as the engine's own tasks run: a worker whose tasks are gone must
    /// not keep its runs.
    pub(super) fn start(inner: &Arc<Inner>) -> Self {
        let end = Arc::<KeeperEnd>::default();
        let environment = Arc::clone(&inner.shared.environment);
        let task = keep_leases(
            Arc::downgrade(inner),
            Arc::clone(&environment),
            Arc::clone(&end),
            inner.settings.lease,
        );
        environment.spawn_keeper(Box::pin(task));
        Self(end)
    }
}

async fn keep_leases(
    inner: Weak<Inner>,
    environment: Arc<dyn Environment>,
    end: Arc<KeeperEnd>,
    lease: Duration,
) {
    // One renewal may fail, and two may come late, before a lease is over.
    let period = lease / 4;
    let mut wait = period;
    while !end.over.load(Ordering::Acquire) {
        let pause = environment.sleep(wait);
        let round = async {
            pause.await;
            // Held for no longer, so that an engine without users goes, and its store with it.
            match inner.upgrade() {
                Some(inner) => keep(&inner).await,
                None => true,
            }
        };
        if let Either::Left((renewed, _)) = select(Box::pin(round), Box::pin(end.changed.notified())).await {
            wait = if renewed { period } else { RENEWAL_RETRY.min(period) };
        }
    }
}

/// Renews, and looks at the other workers. Returns whether it could.
async fn keep(inner: &Inner) -> bool {
    inner.sweep_cells();
    let shared = &inner.shared;
    if inner.holds_runs() || inner.watch().sees_others() {
        match shared.renew(inner.noticed()).await {
            Ok(lost) => inner.lose(lost),
            Err(error) => {
                tracing::warn!(%error, "cannot renew leases");
                inner.watch().pause(shared.environment.monotonic());
                return false;
            }
        }
    }
    let from = shared.environment.monotonic();
    let workers = shared.store.workers().await;
    let until = shared.environment.monotonic();
    match workers {
        Ok(mut workers) => {
            workers.retain(|worker| worker.id != shared.worker);
            inner.watch().look(workers, from, until, inner.settings.lease);
            true
        }
        Err(error) => {
            tracing::warn!(%error, "cannot look at the leases of other workers");
            inner.watch().pause(until);
            false
        }
    }
}

impl Inner {
    /// Stops the runs that others have taken from this worker.
    fn lose(&self, lost: Vec<LostRun>) {
        for lost in &lost {
            let active = self.active().get(&lost.run).map(|active| Arc::clone(&active.run));
            if let Some(run) = active.filter(|run| run.is_lost(lost)) {
                tracing::warn!(run = %run.id, "another worker has taken a run over while this one was silent");
                run.fail(run.lost(lost.epoch));
            }
        }
        *self.lost() = lost;
    }

    /// The runs that were taken and of which nothing is in flight here any more.
    fn noticed(&self) -> Vec<LostRun> {
        let active = self.active();
        let is_over = |lost: &&LostRun| !active.get(&lost.run).is_some_and(|active| active.run.is_lost(lost));
        self.lost().iter().filter(is_over).cloned().collect()
    }

    /// Whether this worker may hold a run.
    fn holds_runs(&self) -> bool {
        !self.active().is_empty() || self.loading.load(Ordering::Acquire) > 0 || !self.lost().is_empty()
    }
}

/// How long other workers have been silent, as this one has seen it.
#[derive(Debug, Default)]
pub(super) struct LeaseWatch(HashMap<WorkerId, Sighting>);

#[derive(Debug)]
struct Sighting {
    renewals: u64,
    lease: Duration,
    /// For how long the number of renewals is known not to have changed.
    silent: Duration,
    /// When the newest look ended.
    at: Duration,
}

impl LeaseWatch {
    /// Takes in what a look found that began at `from` and ended at `until`, after a renewal of this worker.
    fn look(&mut self, workers: Vec<WorkerRecord>, from: Duration, until: Duration, own_lease: Duration) {
        let former = std::mem::take(&mut self.0);
        self.0 = workers
            .into_iter()
            .map(|WorkerRecord { id, renewals, lease }| {
                let lease = lease.unwrap_or(own_lease);
                let silent = match former.get(&id) {
                    // From the end of one look to the beginning of the next. No gap counts for more than a third of a
                    // lease: after a pause of its own, this worker looks again before it takes anything.
                    Some(known) if known.renewals == renewals => {
                        known.silent + from.saturating_sub(known.at).min(lease / 3)
                    }
                    _ => Duration::ZERO,
                };
                (id, Sighting { renewals, lease, silent, at: until })
            })
            .collect();
    }

    /// Time until `now` does not count: the store could not be written or read, by the others neither.
    fn pause(&mut self, now: Duration) {
        self.0.values_mut().for_each(|sighting| sighting.at = now);
    }

    fn sees_others(&self) -> bool {
        !self.0.is_empty()
    }

    /// Workers that have been silent for a whole lease.
    pub(super) fn silent(&self) -> Vec<SilentWorker> {
        let silent = self.0.iter().filter(|(_, sighting)| sighting.silent >= sighting.lease);
        silent.map(|(id, sighting)| SilentWorker { id: id.clone(), renewals: sighting.renewals }).collect()
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
