//! Keeping this worker's leases, and watching those of the others.
//!
//! Promise: leases are renewed for as long as the engine's own tasks live, whatever bodies do to their threads; a run that
//! another worker took over is stopped here, and only then said to be noticed. Where these tasks end before this worker has, it
//! is ended as soon as none of its bodies stands any more: nobody waits for a worker that cannot do anything.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::engine::inner::Inner;
use crate::run::leases::RENEWAL_RETRY;
use crate::sched::{AtomicBool, Mutex, Notify, mutated};
use crate::store::error::StoreError;
use crate::store::workers::LostRun;
use crate::vocabulary::environment::Environment;

/// Renews the leases until it is dropped.
#[derive(Debug)]
pub(super) struct Keeper(Arc<KeeperEnd>);

#[derive(Debug, Default)]
struct KeeperEnd {
    over: AtomicBool,
    changed: Notify,
    /// The engine, where its worker is to be ended.
    to_end: Mutex<Option<Arc<Inner>>>,
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

    /// Has the worker ended when nothing of it stands any more, once this is dropped: the engine's own tasks do not do it.
    pub(super) fn end_worker_of(&self, inner: &Arc<Inner>) {
        *self.0.to_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(inner));
    }
}

async fn keep_leases(
    inner: Weak<Inner>,
    environment: Arc<dyn Environment>,
    end: Arc<KeeperEnd>,
    lease: Duration,
) {
    let mut wait = Duration::ZERO;
    while !end.over.load(Ordering::Acquire) {
        let pause = environment.sleep(wait);
        let round = async {
            pause.await;
            // Held for no longer, so that an engine without users goes, and its store with it.
            match inner.upgrade() {
                Some(inner) => keep(&inner).await,
                None => lease,
            }
        };
        if let Either::Left((next, _)) = select(Box::pin(round), Box::pin(end.changed.notified())).await {
            wait = next;
        }
    }
    let to_end = end.to_end.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(inner) = to_end {
        end_worker(&inner).await;
    }
}

/// Ends the worker of an engine whose own tasks have ended with their runtime, unless a shutdown does. Its leases are not
/// renewed any more, so others take its runs; a body that is left over keeps the worker known to them until it has ended.
async fn end_worker(inner: &Inner) {
    let mut pause = inner.settings.poll.max(SHORTEST_LOOK);
    while !inner.left.initialized() {
        if !inner.is_at_work() {
            match inner.shared.retire().await {
                Ok(()) | Err(StoreError::Closed { .. } | StoreError::Lost { .. }) => return,
                // Also where the error is not retryable: a full disk may have room again.
                Err(error) => {
                    tracing::warn!(target: "aether::engine", %error, "cannot end a worker yet whose runtime has ended");
                    pause = (pause * 2).min(LONGEST_LOOK.max(pause));
                }
            }
        }
        inner.shared.environment.sleep(pause).await;
    }
}

/// How often it is looked at most whether a body still stands, and how often at least the store is asked again.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// Renews, and looks at the other workers. Returns when to do so again.
async fn keep(inner: &Inner) -> Duration {
    inner.sweep_cells();
    let shared = &inner.shared;
    // One renewal may fail, and two may come late, before a lease is over.
    let period = inner.settings.lease / 4;
    let retry = RENEWAL_RETRY.min(period);
    let asked = std::mem::take(&mut inner.vitals().asked);
    // Where it has not renewed it sees nobody, and nothing else would end that.
    let is_partly_blind = !shared.store.is_renewed_everywhere(&shared.worker);
    if !shared.has_retired()
        && (asked || inner.holds_runs() || inner.watch().sees_others() || is_partly_blind)
    {
        match renew(inner).await {
            Ok(lost) => inner.lose(lost),
            Err(_) if shared.has_retired() => return period,
            Err(error) => {
                shared.gauge.store_failed(error.kind());
                tracing::warn!(target: "aether::engine", %error, "cannot renew leases");
                inner.watch().pause(shared.environment.monotonic());
                return retry;
            }
        }
    }
    let from = clock(&*shared.environment);
    let workers = shared.store.workers().await;
    let until = clock(&*shared.environment);
    match workers {
        Ok(mut workers) => {
            workers.retain(|worker| worker.id != shared.worker);
            let mut watch = inner.watch();
            watch.look(workers, from, until, inner.settings.lease);
            // Their runs may be claimed now, and nothing else tells the scheduler.
            if !watch.silent().is_empty() {
                inner.wake_scheduler.notify_one();
            }
            watch.period().map_or(period, |of_others| of_others.min(period))
        }
        Err(error) => {
            shared.gauge.store_failed(error.kind());
            tracing::warn!(target: "aether::engine", %error, "cannot look at the leases of other workers");
            inner.watch().pause(until);
            retry
        }
    }
}

/// Renews, and notes when and how the store answered.
async fn renew(inner: &Inner) -> Result<Vec<LostRun>, StoreError> {
    let shared = &inner.shared;
    inner.vitals().renewing = Some(shared.environment.monotonic());
    let renewed = shared.renew(inner.noticed()).await;
    let now = shared.environment.monotonic();
    let mut vitals = inner.vitals();
    vitals.renewing = None;
    vitals.wrote(now, &renewed);
    if renewed.is_ok() {
        vitals.renewed = Some(now);
    }
    renewed
}

/// The clock by which others are watched: one that nobody sets.
fn clock(environment: &dyn Environment) -> Duration {
    if mutated("leases-by-the-wall-clock") {
        return environment.now().duration_since(jiff::Timestamp::UNIX_EPOCH).unsigned_abs();
    }
    environment.monotonic()
}

impl Inner {
    /// Stops the runs that others have taken from this worker.
    fn lose(&self, lost: Vec<LostRun>) {
        for lost in &lost {
            let active = self.active().get(&lost.run).map(|active| Arc::clone(&active.run));
            if let Some(run) = active.filter(|run| run.is_lost(lost)) {
                tracing::warn!(target: "aether::engine", run = %run.id, "another worker has taken a run over while this one was silent");
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

    /// Whether a body of this worker may still do something, or a claim or a creation is under way.
    fn is_at_work(&self) -> bool {
        let is_under_way = !self.admissions.ended_before(self.admissions.next());
        is_under_way || self.loading.load(Ordering::Acquire) > 0 || !self.active().is_empty()
    }

    /// Whether this worker may hold a run.
    fn holds_runs(&self) -> bool {
        !self.active().is_empty() || self.loading.load(Ordering::Acquire) > 0 || !self.lost().is_empty()
    }
}
