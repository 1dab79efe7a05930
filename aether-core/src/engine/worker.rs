//! The engine's own tasks: claiming due runs, looking into inboxes, and shutting down.
//!
//! Promise: a shutdown cancels nothing, and closes the store after every run is released and every body has ended.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};

use crate::engine::adopt::adopter::{adopt, adopt_now};
use crate::engine::advance::launch::{AFTER_STOP, launch_claimed};
use crate::engine::drain::{FLUSH_PATIENCE, drained};
use crate::engine::heal::Healer;
use crate::engine::inner::Inner;
use crate::engine::keeper::Keeper;
use crate::engine::orphans::Orphans;
use crate::engine::pace::Pace;
use crate::engine::whole::continued;
use crate::store::error::StoreError;
use crate::store::records::{ClaimRequest, Lease};
use crate::vocabulary::environment::{CLOCKS_APART, Environment, later};
use crate::vocabulary::id::RunId;

/// Starts the engine's own tasks.
pub(super) fn spawn_tasks(inner: &Arc<Inner>) {
    let unbroken = Unbroken { inner: Arc::clone(inner), keeper: Keeper::start(inner) };
    inner.spawn(schedule(Arc::clone(inner), unbroken));
    if inner.settings.advances {
        inner.spawn(adopt(Arc::downgrade(inner)));
    }
    inner.spawn(look_into_inboxes(
        Arc::downgrade(inner),
        Arc::clone(&inner.shared.environment),
        inner.settings.poll,
    ));
}

/// Claims what is due, until the engine stops; then releases everything. Leases are renewed for as long as this runs.
async fn schedule(inner: Arc<Inner>, unbroken: Unbroken) {
    let shared = Arc::clone(&inner.shared);
    // Not by the wall clock: set back by a year, it would let a year pass until the next look.
    let (mut care, mut warnings) = (Care::of(&inner), Pace::of(&inner));
    while !inner.is_stopping() {
        if inner.draining.load(Ordering::Acquire) {
            // Whoever drains may be dropped with a runtime of its own: then it is done here.
            let drained = Box::pin(drained(&inner, Duration::ZERO));
            select(drained, Box::pin(care.go_on(&inner))).await;
        }
        care.look(&inner).await;
        // Both before looking: a wake that comes while the store is asked leaves a permit for this future, and the time
        // that the look takes counts towards the poll interval.
        let woken = inner.wake_scheduler.notified();
        let next_look = shared.environment.sleep(inner.settings.poll);
        let claimed = claim(&inner, None, false).await.unwrap_or_else(|error| {
            // An error that lasts comes at every poll, which may be many times a second.
            if warnings.is_time() {
                tracing::warn!(target: "aether::engine", %error, "cannot claim runs; they are claimed when that has passed");
            }
            0
        });
        // One claim takes a limited number of runs. More may be due, and no wake will tell: look again at once.
        if claimed > 0 {
            continue;
        }
        // A run that is due but was not claimed (no room, or not linked into this program) must not make this loop spin:
        // it waits for a wake or for the next poll.
        let next_due = match shared.store.next_wake().await {
            Ok(Some(due)) if due > shared.environment.now() => shared.environment.sleep_until(due),
            Ok(Some(_)) => {
                inner.adoptions.wake_for_due();
                Box::pin(std::future::pending())
            }
            _ => Box::pin(std::future::pending()),
        };
        select(Box::pin(woken), select(next_look, next_due)).await;
    }
    // Where the last clone of the engine was dropped without a shutdown, no caller is left who could give bodies time.
    // After an explicit shutdown this waits for the same result.
    let _released_as_far_as_possible = shut_down(&inner, Duration::ZERO).await;
    // The leases of runs whose bodies still stand are renewed until the last of them has ended.
    inner.unstuck().await;
    let _nobody_asks = leave(&inner).await;
    drop(unbroken);
}

/// Notes that the task which claims runs has ended before this worker has, also in the middle of a shutdown. Nobody renews the
/// leases of this worker any more, so that it must not begin runs: the engine stops. A client goes on in its callers' runtimes.
struct Unbroken {
    inner: Arc<Inner>,
    keeper: Keeper,
}

impl Drop for Unbroken {
    fn drop(&mut self) {
        let inner = &self.inner;
        if inner.left.initialized() {
            return;
        }
        inner.vitals().broken = true;
        if inner.settings.advances {
            self.keeper.end_worker_of(inner);
            tracing::warn!(target: "aether::engine", "the engine has stopped without a complete shutdown: the task that claims runs has ended, as it does with the runtime in which the engine was started");
            inner.begin_stopping();
        }
    }
}

/// What is looked for once in each lease, because nothing else would move it.
struct Care {
    pace: Pace,
    healer: Healer,
    orphans: Orphans,
}

impl Care {
    fn of(inner: &Inner) -> Self {
        Self { pace: Pace::of(inner), healer: Healer::default(), orphans: Orphans::default() }
    }

    async fn look(&mut self, inner: &Arc<Inner>) {
        if self.pace.is_time() {
            heal(inner, &mut self.healer).await;
            hasten(inner).await;
            self.release_orphans(inner).await;
        }
    }

    /// Looks again and again during a drain, in which nothing is claimed; never returns.
    async fn go_on(&mut self, inner: &Arc<Inner>) {
        loop {
            if self.pace.is_time() {
                self.release_orphans(inner).await;
            }
            inner.shared.environment.sleep(inner.settings.poll).await;
        }
    }

    async fn release_orphans(&mut self, inner: &Arc<Inner>) {
        if let Err(error) = self.orphans.release(inner).await {
            tracing::warn!(target: "aether::engine", %error, "cannot look for runs that are owned and not advanced");
        }
    }
}

/// Claims the runs that could move and that nothing wakes.
async fn heal(inner: &Arc<Inner>, healer: &mut Healer) {
    for (run, newest) in healer.look(inner).await {
        match claim(inner, Some(run.clone()), false).await {
            // No room, or another worker was first: if it still waits at the next look, that tries again.
            Ok(0) => {}
            Ok(_) => {
                tracing::warn!(target: "aether::engine", %run, "a waiting run was not woken by its message; it is claimed");
                healer.settled(run, newest);
            }
            Err(error) => {
                tracing::warn!(target: "aether::engine", %run, %error, "cannot claim a run that nothing wakes")
            }
        }
    }
}

/// Makes runs due that wait for nothing and that a clock which was ahead made due long from now. Too early a look at a run
/// whose worker has the better clock costs no more than that look.
async fn hasten(inner: &Inner) {
    if !inner.takes_runs() {
        return;
    }
    let now = inner.shared.environment.now();
    match inner.shared.store.hasten(now, later(now, AFTER_STOP + CLOCKS_APART)).await {
        Ok(0) => {}
        Ok(runs) => {
            tracing::warn!(target: "aether::engine", runs, "runs were due long from now, by a clock that was ahead; they go on");
        }
        Err(error) => {
            tracing::warn!(target: "aether::engine", %error, "cannot look for runs that a clock left in the future")
        }
    }
}

/// Claims due runs, or just `only`, and begins to advance them; where it is `wanted`, also one that may not begin yet. Returns
/// how many.
pub(super) async fn claim(
    inner: &Arc<Inner>,
    only: Option<RunId>,
    wanted: bool,
) -> Result<usize, StoreError> {
    let shared = &inner.shared;
    let room = inner.room_for(1);
    if room == 0 || !inner.takes_runs() {
        return Ok(0);
    }
    let Some(admission) = inner.admit().await else { return Ok(0) };
    let others_first = inner.others_first.load(Ordering::Relaxed);
    let lapsed_first = inner.lapsed_first.load(Ordering::Relaxed);
    let request = ClaimRequest {
        worker: shared.worker.clone(),
        now: shared.environment.now(),
        silent: inner.watch().silent(),
        limit: room.min(256),
        codes: inner.codes(),
        only: only.clone(),
        adopt: Vec::new(),
        serves: inner.serves.clone(),
        others_first,
        lapsed_first,
    };
    let leases = shared.store.claim(request).await;
    let answered = shared.environment.monotonic();
    match &leases {
        Ok(_) => inner.vitals().claimed = Some(answered),
        Err(error) => shared.gauge.store_failed(error.kind()),
    }
    let leases = leases?;
    // A claim may bring back others, of which an earlier answer was lost.
    let is_meant = |lease: &&Lease| only.as_ref().is_none_or(|run| *run == lease.run.id);
    let claimed = leases.iter().filter(is_meant).count();
    if claimed > 0 {
        inner.others_first.store(!others_first, Ordering::Relaxed);
        // At every other turn, so that each of the two goes with each of the others.
        inner.lapsed_first.store(lapsed_first ^ others_first, Ordering::Relaxed);
    }
    let loading = launch_claimed(inner, leases, wanted, admission);
    if let Some(run) = only {
        join_all(loading).await;
        if claimed == 0 {
            let found = adopt_now(inner, &run, wanted).await?;
            return match found.recoded {
                0 => Ok(found.claimed),
                // It has this program's code now.
                _ => Box::pin(claim(inner, Some(run), wanted)).await,
            };
        }
    }
    Ok(claimed)
}

/// Polls for what other processes did. Apart from the scheduler, whose claims are writes: a request to end a run is heard
/// also while nothing can be written.
async fn look_into_inboxes(inner: Weak<Inner>, environment: Arc<dyn Environment>, poll: Duration) {
    loop {
        environment.sleep(poll).await;
        // Held for no longer, so that an engine without users goes, and its store with it.
        match inner.upgrade() {
            Some(inner) if !inner.is_stopping() => poll_inboxes(&inner).await,
            _ => return,
        }
    }
}

/// Delivers what other processes did: messages to runs that are active here, and ends of children. They cannot wake this
/// process, so it polls.
async fn poll_inboxes(inner: &Arc<Inner>) {
    let store = &inner.shared.store;
    let unread = store.unread_held(&inner.shared.worker).await.unwrap_or_else(|error| {
        tracing::warn!(target: "aether::engine", %error, "cannot look for messages");
        Vec::new()
    });
    for (id, newest) in unread {
        let active = inner.active().get(&id).map(|active| Arc::clone(&active.run));
        let Some(run) = active.filter(|run| run.seen() < newest) else { continue };
        match store.inbox(&id, run.seen()).await {
            Ok(inbox) => run.notify(inbox),
            Err(error) => tracing::warn!(target: "aether::engine", run = %id, %error, "cannot read messages"),
        }
    }
    // A child that ended elsewhere sent no message: who waits looks again.
    let waiting: Vec<_> =
        inner.active().values().map(|a| Arc::clone(&a.run)).filter(|run| run.is_waiting()).collect();
    waiting.iter().for_each(|run| run.notify(Vec::new()));
}

/// Stops the engine: bodies get `patience` to finish, then every run is released. Of several calls the first one stops it,
/// and all of them return its result.
pub(super) async fn shut_down(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    let engine = Arc::clone(inner);
    // A caller that is dropped leaves no half-stopped engine behind.
    continued(inner, async move { engine.ended.get_or_init(|| stop_all(&engine, patience)).await.clone() })
        .await
}

async fn stop_all(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    // 1. `start` refuses from now on, and the engine's tasks end.
    inner.begin_stopping();
    // 2. Every run is released, unless a drain has done that before.
    drained(inner, patience).await;
    // 3. A run is not free while a body of it may still do something: the store, with whose end this worker is over for all
    // others, is closed when that body has ended, or ends with this process.
    if inner.is_stuck() {
        return Err(unavailable(
            inner,
            "a body blocks its thread and could not be cut off: its run is free when that body or this process ends, and \
             the store is open until then",
        ));
    }
    leave(inner).await
}

fn unavailable(inner: &Inner, reason: &str) -> StoreError {
    StoreError::Unavailable { store: inner.shared.store.describe(), reason: reason.to_owned() }
}

/// Ends this worker for all others, once. Nothing of it runs any more.
async fn leave(inner: &Inner) -> Result<(), StoreError> {
    inner.left.get_or_init(|| retire_and_close(inner)).await.clone()
}

async fn retire_and_close(inner: &Inner) -> Result<(), StoreError> {
    let (store, environment) = (&inner.shared.store, &inner.shared.environment);
    // 1. Whatever this worker could not release is free.
    let retired = match select(Box::pin(inner.shared.retire()), environment.sleep(FLUSH_PATIENCE)).await {
        Either::Left((retired, _)) => Some(retired),
        Either::Right(_) => None,
    };
    // 2. The store is closed last, and only by its last holder: another engine of this process may still use it. What
    // this engine wrote is durable in any case, because its runs were released after their appends.
    let is_held = inner.in_use.is_held(store);
    let closed = async { if is_held { Ok(()) } else { store.close().await } };
    match retired {
        Some(retired) => closed.await.and(retired),
        // What does not answer to the one may never answer to the other.
        None => {
            let reason = "the runs of this worker could not be released in time; they are when it is seen to be silent, or \
                          when this process ends";
            match select(Box::pin(closed), environment.sleep(FLUSH_PATIENCE)).await {
                Either::Left((Err(error), _)) => Err(error),
                _ => Err(unavailable(inner, reason)),
            }
        }
    }
}
