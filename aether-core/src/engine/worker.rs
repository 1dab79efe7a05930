//! The engine's tasks: claiming runs that nobody advances, keeping leases, advancing each run in a task of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, join_all, select};
use jiff::Timestamp;

use crate::engine::advance::launch::{give_up, recover, remove_active};
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

/// Starts the engine's own tasks.
pub(super) fn begin(inner: &Arc<Inner>) {
    tokio::spawn(schedule(Arc::clone(inner)));
    tokio::spawn(keep_leases(Arc::clone(inner)));
}

/// Claims what is due, until the engine stops; then lets go of everything.
async fn schedule(inner: Arc<Inner>) {
    let shared = Arc::clone(&inner.shared);
    warn_of_unlinked(&inner).await;
    let (mut healer, mut next_healing) = (Healer::default(), now(&inner));
    while !inner.is_stopping() {
        if next_healing <= now(&inner) {
            next_healing = later(now(&inner), inner.settings.lease);
            heal(&inner, &mut healer).await;
        }
        let woken = inner.wake_scheduler.notified();
        // Begun before looking: what comes in between is found by the next look, and not by the one after it.
        let next_look = shared.environment.sleep(inner.settings.poll);
        match claim(&inner, None).await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => tracing::warn!(%error, "cannot claim runs"),
        }
        look_into_inboxes(&inner).await;
        let next_due = match shared.store.next_wake().await {
            Ok(Some(due)) if due > shared.environment.now() => shared.environment.sleep_until(due),
            _ => Box::pin(std::future::pending()),
        };
        select(Box::pin(woken), select(next_look, next_due)).await;
    }
    if !inner.active().is_empty() {
        let _released_as_far_as_possible = shut_down(&inner, Duration::ZERO).await;
    }
}

/// Takes up what nothing wakes.
async fn heal(inner: &Arc<Inner>, healer: &mut Healer) {
    let healed = async {
        for run in healer.look(inner).await? {
            claim(inner, Some(run)).await?;
        }
        Ok::<_, StoreError>(())
    };
    if let Err(error) = healed.await {
        tracing::warn!(%error, "cannot take up runs that nothing wakes");
    }
}

/// Says which open runs this program cannot advance.
async fn warn_of_unlinked(inner: &Inner) {
    for status in [Status::Pending, Status::Running, Status::Waiting] {
        let filter = RunFilter { status: Some(status), limit: 1_000, ..RunFilter::default() };
        for run in inner.shared.store.runs(filter).await.unwrap_or_default() {
            if !inner.is_linked(&run.workflow) {
                let fault = not_linked(inner, &run.id, &run.workflow);
                tracing::warn!(run = %run.id, %fault, "an open run is left alone");
            }
        }
    }
}

/// Takes due runs (or just `only`) and begins to advance them. Returns how many.
pub(super) async fn claim(inner: &Arc<Inner>, only: Option<RunId>) -> Result<usize, StoreError> {
    let shared = &inner.shared;
    let room = inner.settings.max_active.saturating_sub(inner.active().len());
    if room == 0 {
        return Ok(0);
    }
    let now = shared.environment.now();
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
    for lease in leases {
        recover(inner, lease).await;
    }
    Ok(claimed)
}

/// Messages that other processes sent to runs that wait here.
async fn look_into_inboxes(inner: &Arc<Inner>) {
    let looks = |run: &Run| run.is_stalled() || run.is_waiting();
    let waiting: Vec<_> =
        inner.active().values().filter(|a| looks(&a.run)).map(|a| Arc::clone(&a.run)).collect();
    for run in waiting {
        if let Ok(inbox) = inner.shared.store.inbox(&run.id).await {
            run.notify(inbox);
        }
    }
}

/// After a pause of the whole process (a computer that slept) the leases of its own runs have run out: they are renewed
/// before this worker takes its own runs away from itself. What another worker took meanwhile stays with that one.
async fn renew_overdue(inner: &Inner, now: Timestamp) {
    let renewed = inner.renewed.load(Ordering::Acquire);
    let lease = i64::try_from(inner.settings.lease.as_micros()).unwrap_or(i64::MAX);
    if renewed.saturating_add(lease) <= now.as_microsecond() && !inner.active().is_empty() {
        renew(inner).await;
    }
}

async fn renew(inner: &Inner) {
    let shared = &inner.shared;
    let now = shared.environment.now();
    match shared.store.renew(&shared.worker, later(now, inner.settings.lease)).await {
        Ok(()) => inner.renewed.store(now.as_microsecond(), Ordering::Release),
        Err(error) => tracing::warn!(%error, "cannot renew leases"),
    }
}

async fn keep_leases(inner: Arc<Inner>) {
    let shared = Arc::clone(&inner.shared);
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

/// Stops the engine: bodies may finish for `patience`, then every run is given back.
pub(super) async fn shut_down(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    let engine = Arc::clone(inner);
    // A caller that goes away leaves no half-stopped engine behind.
    whole(inner, async move { engine.ended.get_or_init(|| stop_all(&engine, patience)).await.clone() }).await
}

async fn stop_all(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    inner.stopping.store(true, Ordering::Release);
    inner.wake_scheduler.notify_one();
    let active: Vec<(Arc<Run>, _)> =
        inner.active().values_mut().map(|a| (Arc::clone(&a.run), a.task.take())).collect();
    let environment = &inner.shared.environment;
    let mut ends: Vec<BoxFuture<'_, ()>> = Vec::new();
    for (run, task) in active {
        run.begin_stopping();
        ends.push(Box::pin(async move {
            let Some(mut task) = task else { return };
            let limit = environment.sleep(patience);
            if let Either::Right(((), _)) = select(&mut task, limit).await {
                task.abort();
                let _aborted = task.await;
                let _flushed_or_failed = run.watermark().reached(run.next()).await;
                give_up(inner, &run.id, run.epoch, Fault::ShutDown { run: run.id.clone() }).await;
                remove_active(inner, &run);
            }
        }));
    }
    join_all(ends).await;
    let store = &inner.shared.store;
    // Whoever else holds the store, such as another engine of this process, goes on using it. What this engine put
    // into it is durable: its runs were given back in the order of their appends.
    if Arc::strong_count(store) > 1 { Ok(()) } else { store.close().await }
}
