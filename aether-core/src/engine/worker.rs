//! The engine's own tasks: claiming due runs, renewing leases, and releasing everything at a shutdown.
//!
//! Promise: a shutdown cancels nothing, and releases a run only after its appends are durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, join_all, select};
use jiff::Timestamp;

use crate::engine::advance::launch::{recover, release_run, remove_active};
use crate::engine::advance::load::not_linked;
use crate::engine::heal::Healer;
use crate::engine::inner::{Inner, now, whole};
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::store::api::{ClaimRequest, RunFilter};
use crate::store::error::StoreError;
use crate::vocabulary::contract::Status;
use crate::vocabulary::environment::later;
use crate::vocabulary::id::RunId;

/// How long a shutdown waits for the appends of a run that it cut off.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// Starts the engine's own tasks.
pub(super) fn spawn_tasks(inner: &Arc<Inner>) {
    tokio::spawn(schedule(Arc::clone(inner)));
    tokio::spawn(keep_leases(Arc::clone(inner)));
}

/// Claims what is due, until the engine stops; then releases everything.
async fn schedule(inner: Arc<Inner>) {
    let shared = Arc::clone(&inner.shared);
    warn_of_unlinked(&inner).await;
    let (mut healer, mut next_healing) = (Healer::default(), now(&inner));
    while !inner.is_stopping() {
        if next_healing <= now(&inner) {
            next_healing = later(now(&inner), inner.settings.lease);
            heal(&inner, &mut healer).await;
        }
        // Both before looking: a wake that comes while the store is asked leaves a permit for this future, and the time
        // that the look takes counts towards the poll interval.
        let woken = inner.wake_scheduler.notified();
        let next_look = shared.environment.sleep(inner.settings.poll);
        match claim(&inner, None).await {
            Ok(0) => {}
            // One claim takes a limited number of runs. More may be due, and no wake will tell: look again at once.
            Ok(_) => continue,
            Err(error) => tracing::warn!(%error, "cannot claim runs"),
        }
        poll_inboxes(&inner).await;
        // A run that is due but was not claimed (no room, or not linked into this program) must not make this loop spin:
        // it waits for a wake or for the next poll.
        let next_due = match shared.store.next_wake().await {
            Ok(Some(due)) if due > shared.environment.now() => shared.environment.sleep_until(due),
            _ => Box::pin(std::future::pending()),
        };
        select(Box::pin(woken), select(next_look, next_due)).await;
    }
    // The last clone of the engine was dropped without a shutdown: no caller is left who could give bodies time. After an
    // explicit shutdown this waits for the same result.
    if !inner.active().is_empty() {
        let _released_as_far_as_possible = shut_down(&inner, Duration::ZERO).await;
    }
}

/// Claims the runs that could move and that nothing wakes.
async fn heal(inner: &Arc<Inner>, healer: &mut Healer) {
    let healed = async {
        for run in healer.look(inner).await? {
            claim(inner, Some(run)).await?;
        }
        Ok::<_, StoreError>(())
    };
    if let Err(error) = healed.await {
        tracing::warn!(%error, "cannot claim runs that nothing wakes");
    }
}

/// Warns of open runs whose workflow is not linked into this program.
async fn warn_of_unlinked(inner: &Inner) {
    for status in [Status::Pending, Status::Running, Status::Waiting] {
        let filter = RunFilter { status: Some(status), limit: 1_000, ..RunFilter::default() };
        for run in inner.shared.store.runs(filter).await.unwrap_or_default() {
            if !inner.is_linked(&run.workflow) {
                let fault = not_linked(inner, &run.id, &run.workflow);
                tracing::warn!(run = %run.id, %fault, "an open run is not advanced here");
            }
        }
    }
}

/// Claims due runs, or just `only`, and begins to advance them. Returns how many.
pub(super) async fn claim(inner: &Arc<Inner>, only: Option<RunId>) -> Result<usize, StoreError> {
    let shared = &inner.shared;
    let room = inner.settings.max_active.saturating_sub(inner.active().len());
    if room == 0 {
        return Ok(0);
    }
    let now = shared.environment.now();
    // Before the claim, because a store gives away every run whose lease has run out, this worker's own as well.
    renew_overdue(inner, now).await;
    let request = ClaimRequest {
        worker: shared.worker.clone(),
        now,
        lease_until: later(now, inner.settings.lease),
        limit: room.min(256),
        workflows: inner.workflow_names(),
        only,
    };
    let leases = shared.store.claim(request).await?;
    let claimed = leases.len();
    // Each of them must become a task or be released. A lease that gets lost here is renewed with all the others and
    // blocks its run for as long as this worker lives.
    for lease in leases {
        recover(inner, lease).await;
    }
    Ok(claimed)
}

/// Delivers messages that other processes sent to runs that wait here. They cannot wake this process, so it polls.
async fn poll_inboxes(inner: &Arc<Inner>) {
    let is_worth_a_look = |run: &Run| run.is_stalled() || run.is_waiting();
    let waiting: Vec<_> =
        inner.active().values().filter(|a| is_worth_a_look(&a.run)).map(|a| Arc::clone(&a.run)).collect();
    for run in waiting {
        if let Ok(inbox) = inner.shared.store.inbox(&run.id, run.seen()).await {
            run.notify(inbox);
        }
    }
}

/// Renews leases that ran out because the whole process was paused, such as by a computer that slept. Without it this
/// worker would claim its own runs a second time, while their tasks still advance them. A run that another worker claimed
/// meanwhile stays with that worker; the task here ends at its first append, whose epoch is stale.
async fn renew_overdue(inner: &Inner, now: Timestamp) {
    let renewed = inner.renewed.load(Ordering::Acquire);
    let lease = i64::try_from(inner.settings.lease.as_micros()).unwrap_or(i64::MAX);
    if renewed.saturating_add(lease) <= now.as_microsecond() && !inner.active().is_empty() {
        renew(inner).await;
    }
}

async fn renew(inner: &Inner) {
    let shared = &inner.shared;
    // Read before the store is asked: a slow store makes the leases look older than they are, never younger.
    let now = shared.environment.now();
    match shared.store.renew(&shared.worker, later(now, inner.settings.lease)).await {
        Ok(()) => inner.renewed.store(now.as_microsecond(), Ordering::Release),
        Err(error) => tracing::warn!(%error, "cannot renew leases"),
    }
}

/// Renews the leases of all runs of this worker, until the engine stops.
async fn keep_leases(inner: Arc<Inner>) {
    let shared = Arc::clone(&inner.shared);
    // A renewal may fail or come late twice before a lease runs out.
    let period = inner.settings.lease / 3;
    loop {
        shared.environment.sleep(period).await;
        if inner.is_stopping() {
            return;
        }
        inner.sweep_cells();
        if inner.active().is_empty() {
            continue;
        }
        renew(&inner).await;
    }
}

/// Stops the engine: bodies get `patience` to finish, then every run is released. Of several calls the first one stops it,
/// and all of them return its result.
pub(super) async fn shut_down(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    let engine = Arc::clone(inner);
    // A caller that is dropped leaves no half-stopped engine behind.
    whole(inner, async move { engine.ended.get_or_init(|| stop_all(&engine, patience)).await.clone() }).await
}

async fn stop_all(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    // 1. Nothing new: the scheduler claims no more, and `start` refuses.
    inner.stopping.store(true, Ordering::Release);
    inner.wake_scheduler.notify_one();
    let active: Vec<(Arc<Run>, _)> =
        inner.active().values_mut().map(|a| (Arc::clone(&a.run), a.task.take())).collect();
    let environment = &inner.shared.environment;
    let mut ends: Vec<BoxFuture<'_, ()>> = Vec::new();
    for (run, task) in active {
        // 2. Every run is asked to stop before the first one is waited for. Its task ends when nothing is in flight, and
        // then releases the run itself.
        run.begin_stopping();
        ends.push(Box::pin(async move {
            let Some(mut task) = task else { return };
            let limit = environment.sleep(patience);
            if let Either::Right(((), _)) = select(&mut task, limit).await {
                // 3. Patience is over. The order matters: an aborted task may still be running until it is awaited, so
                // only after that is the journal final; all of it must be durable before the release, or the next
                // owner would read a journal that still grows; and a run that is not released yet is still active.
                task.abort();
                let _aborted = task.await;
                // A store that cannot write for the moment keeps the appends; its `close` says what became of them, and the
                // lease runs out by itself.
                let flushed = Box::pin(run.watermark().reached(run.next()));
                if let Either::Left(_) = select(flushed, environment.sleep(FLUSH_PATIENCE)).await {
                    release_run(inner, &run.id, run.epoch, Fault::ShutDown { run: run.id.clone() }).await;
                }
                remove_active(inner, &run);
            }
        }));
    }
    join_all(ends).await;
    let store = &inner.shared.store;
    // 4. The store is closed last, and only by its last holder: another engine of this process may still use it. What
    // this engine wrote is durable in any case, because its runs were released after their appends.
    if Arc::strong_count(store) > 1 { Ok(()) } else { store.close().await }
}
