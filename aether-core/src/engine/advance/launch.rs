//! Advancing a run in a task of its own: from a claim to its end, its eviction, or its release.
//!
//! Promise: a run that cannot be advanced here is released; a fault of one run leaves the others alone.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::Timestamp;

use crate::engine::advance::completion::{RunCompletion, suspend};
use crate::engine::advance::drive::{DriveEnd, drive};
use crate::engine::advance::load::{Launch, Unwinding, load};
use crate::engine::inner::{Active, Inner, notify_run};
use crate::journal::event::RunRequeued;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::store::api::{Lease, StatusChange};
use crate::store::error::{AppendError, StoreError};
use crate::vocabulary::contract::Status;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::panic_message;
use crate::vocabulary::id::{Epoch, RunId};
use crate::vocabulary::payload::PayloadError;

/// How long a run that could not be advanced is left alone.
const AFTER_FAULT: Duration = Duration::from_secs(5);
/// How long a run that does not fit this program is left alone.
const AFTER_DIVERGENCE: Duration = Duration::from_secs(60);
/// Longest wait between two tries to release a run.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Takes up a run from its journal.
pub(crate) async fn recover(inner: &Arc<Inner>, lease: Lease) {
    let (id, epoch) = (lease.run.id.clone(), lease.run.epoch);
    match load(inner, lease).await {
        Ok(launch) => {
            let woken = launch.origin.next;
            let run = launch_run(inner, launch);
            tracing::debug!(run = %run.id, events = woken, "run taken up");
        }
        Err(fault) => give_up(inner, &id, epoch, fault).await,
    }
}

/// Begins to advance a run in a task of its own.
pub(crate) fn launch_run(inner: &Arc<Inner>, launch: Launch) -> Arc<Run> {
    let Launch { origin, workflow, input, parent, unwinding } = launch;
    let taken_up = origin.epoch > 1;
    let run = Run::new(Arc::clone(&inner.shared), origin);
    let cell = inner.cell(&run.id);
    cell.set(None);
    if taken_up {
        note_takeover(&run);
    }
    inner.active().insert(run.id.clone(), Active { run: Arc::clone(&run), task: None });
    let task = tokio::spawn({
        let (inner, run) = (Arc::clone(inner), Arc::clone(&run));
        async move {
            let children = Some(Arc::clone(&inner.children));
            let body = || workflow.run(Arc::clone(&run), children, &input);
            let advanced = async {
                let closing = match unwinding {
                    Some(Unwinding { end, history }) => Ok(RunCompletion::resumed(&run, end, history)),
                    None => match body() {
                        Ok(body) => RunCompletion::of(&run, drive(&run, body).await),
                        Err(error) => Err(unfit(&run, error)),
                    },
                };
                conclude(&inner, &run, closing, parent).await
            };
            let end = match AssertUnwindSafe(advanced).catch_unwind().await {
                Ok(end) => end,
                Err(panic) => {
                    let fault = Fault::Panicked { run: run.id.clone(), message: panic_message(&*panic) };
                    give_up(&inner, &run.id, run.epoch, fault.clone()).await;
                    Some(RunEnd::Stopped(fault))
                }
            };
            // From here on a handle may see the end, and the run may be claimed again.
            remove_active(&inner, &run);
            if let Some(end) = end {
                cell.set(Some(end));
            }
        }
    });
    if let Some(active) = inner.active().get_mut(&run.id)
        && active.run.epoch == run.epoch
    {
        active.task = Some(task);
    }
    run
}

pub(crate) fn remove_active(inner: &Inner, run: &Run) {
    let mut active = inner.active();
    if active.get(&run.id).is_some_and(|a| a.run.epoch == run.epoch) {
        active.remove(&run.id);
    }
    drop(active);
    inner.wake_scheduler.notify_one();
}

/// Says in the journal that another worker goes on.
fn note_takeover(run: &Run) {
    let event = RunRequeued { worker: run.shared.worker.clone(), reason: format!("epoch {}", run.epoch) };
    let wake_at = Some(run.now());
    let status =
        StatusChange { status: Status::Running, wake_at, release: false, seen: run.seen(), notify: None };
    run.append(vec![event.into()], AppendExtras { status: Some(status), ..AppendExtras::default() });
}

fn unfit(run: &Run, error: PayloadError) -> DriveEnd {
    DriveEnd::Fault(Fault::Input { run: run.id.clone(), workflow: run.def.name.into(), error })
}

/// Brings a run that was polled to its end, if it has one, or gives it back. `None` when it was suspended.
async fn conclude(
    inner: &Arc<Inner>,
    run: &Arc<Run>,
    closing: Result<RunCompletion, DriveEnd>,
    parent: Option<RunId>,
) -> Option<RunEnd> {
    let parent_id = parent.clone();
    let ended = match closing {
        Ok(closing) => closing.finish(run, &*inner.children, parent).await,
        Err(end) => Err(end),
    };
    let fault = match ended {
        Ok(end) => {
            if let Some(parent) = parent_id {
                notify_run(inner, &parent).await;
            }
            return Some(end);
        }
        Err(DriveEnd::Suspended { until, on, seen }) => match suspend(run, until, on, seen).await {
            Ok(()) => return None,
            Err(DriveEnd::Fault(fault)) => fault,
            Err(_) => return None,
        },
        Err(DriveEnd::Fault(fault)) => fault,
        Err(_) => return None,
    };
    if matches!(fault, Fault::Append(AppendError::StaleEpoch { .. })) {
        // Its new owner will end it; handles learn of that from the store.
        return None;
    }
    let _flushed_or_failed = run.watermark().reached(run.next()).await;
    give_up(inner, &run.id, run.epoch, fault.clone()).await;
    Some(RunEnd::Stopped(fault))
}

/// Gives a run back that cannot be advanced here and now.
pub(crate) async fn give_up(inner: &Arc<Inner>, run: &RunId, epoch: Epoch, fault: Fault) {
    let now = inner.shared.environment.now();
    let wake_at = match &fault {
        Fault::ShutDown { .. } => now,
        Fault::Append(_) | Fault::Store(_) => later(now, AFTER_FAULT),
        _ => later(now, AFTER_DIVERGENCE),
    };
    match &fault {
        Fault::ShutDown { .. } => {}
        fault => tracing::error!(%run, %fault, "run stopped; nothing of it was lost"),
    }
    inner.cell(run).set(Some(RunEnd::Stopped(fault)));
    if let Err(error) = inner.shared.store.release(run, epoch, wake_at).await {
        tracing::warn!(%run, %error, "cannot give a run back yet");
        tokio::spawn(give_back_later(Arc::clone(inner), run.clone(), epoch, wake_at));
    }
}

/// This worker goes on renewing all its leases, so a run that it could not give back would be nobody's for ever.
async fn give_back_later(inner: Arc<Inner>, run: RunId, epoch: Epoch, wake_at: Timestamp) {
    let shared = &inner.shared;
    let mut wait = inner.settings.poll;
    while !inner.is_stopping() {
        shared.environment.sleep(wait).await;
        match shared.store.release(&run, epoch, wake_at).await {
            // A run that is gone, or whose epoch is another one, is nobody's to give back.
            Ok(()) | Err(StoreError::UnknownRun { .. }) => return,
            // Room on a full disk comes back, too.
            Err(_) => wait = (wait * 2).min(LONGEST_WAIT.max(inner.settings.poll)),
        }
    }
}
