//! Advancing a run in a task of its own: from a claim to its end, its eviction, or its release.
//!
//! Promise: a run that cannot be advanced here is released; a fault of one run does not affect the others.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tracing::{Instrument as _, debug, error, warn};

use crate::engine::admission::Admission;
use crate::engine::adopt::park::{Held, park};
use crate::engine::advance::completion::{RunCompletion, suspend, unless_failed};
use crate::engine::advance::drive::{DriveEnd, drive};
use crate::engine::advance::forking::Beginning;
use crate::engine::advance::load::{Launch, is_end_request, load};
use crate::engine::advance::place::{Loading, Place};
use crate::engine::advance::read::Unwinding;
use crate::engine::advance::renewal::renew;
use crate::engine::advance::unread::end_unread;
use crate::engine::code::run_code;
use crate::engine::inner::{Active, Inner, notify_parent};
use crate::journal::event::RunRequeued;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::run::log;
use crate::run::program::Completion;
use crate::sched::{JoinHandle, mutated};
use crate::store::append::StatusChange;
use crate::store::error::{AppendError, StoreError};
use crate::store::records::{Lease, RunRecord};
use crate::vocabulary::code::RunCode;
use crate::vocabulary::contract::Status;
use crate::vocabulary::environment::later;
use crate::vocabulary::failure::panic_message;
use crate::vocabulary::id::{Epoch, RunId};
use crate::vocabulary::payload::PayloadError;
use crate::workflow::branch::decide;

/// How many claimed runs are read at the same time.
pub(crate) const LOADS: usize = 8;
/// Wait before a run is claimed again whose store failed.
const AFTER_FAULT: Duration = Duration::from_secs(5);
/// Wait before a run is claimed again that stopped for another reason than its code or its store.
pub(crate) const AFTER_STOP: Duration = Duration::from_secs(60);
/// Longest wait between two tries to release a run.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Reads and launches runs that were just claimed, each in a task of its own. Of those that may not begin yet only such as are
/// `wanted` before.
pub(crate) fn launch_claimed(
    inner: &Arc<Inner>,
    leases: Vec<Lease>,
    wanted: bool,
    admission: Admission,
) -> Vec<JoinHandle<()>> {
    // Each of them must become a task or be released. A lease that gets lost here is renewed with all the others and
    // blocks its run for as long as this worker lives.
    let places = Loading::of(inner, leases.len());
    let launched = leases.into_iter().zip(places).map(|(lease, place)| {
        let (engine, admission) = (Arc::clone(inner), admission.clone());
        inner.runtime.spawn(async move {
            if former_claim_is_over(&engine, &lease.run).await {
                // A long journal does not hold up the runs that are due after it, nor the scheduler.
                let _slot = engine.load_slots.acquire().await;
                recover(&engine, lease, wanted).await;
            }
            drop(place);
            drop(admission);
        })
    });
    launched.collect()
}

/// Resumes a run from its journal.
async fn recover(inner: &Arc<Inner>, lease: Lease, wanted: bool) {
    let record = lease.run.clone();
    let (id, epoch) = (record.id.clone(), record.epoch);
    if !inner.takes_runs() && !mutated("launched-while-stopping") {
        return release_run(inner, &id, epoch, Fault::ShutDown { run: id.clone() }).await;
    }
    if let Some(from) = &lease.taken_from {
        warn!(target: log::RUN, run = %id, epoch, %from,
            "run taken over: the worker that held it does not renew its lease");
    }
    let loaded = AssertUnwindSafe(load(inner, lease)).catch_unwind().await.unwrap_or_else(|panic| {
        let message = inner.shared.redaction.text(panic_message(&*panic));
        Err(Fault::Panicked { run: id.clone(), message })
    });
    match loaded {
        Ok(launch) => {
            // A former build woke it for any message.
            if !wanted
                && !launch.begun
                && let Some(begins) = begins_later(inner, &record)
                && !launch.origin.inbox.iter().any(is_end_request)
            {
                return give_back(inner, &id, epoch, begins).await;
            }
            let launch = ends_only(inner, &record, launch.begun).limit(launch);
            let is_launched = launch_run(inner, launch).is_some();
            // Where it is not, and nothing stops here, this worker has a later claim or gives this one back: it is over.
            if !is_launched && !inner.takes_runs() {
                release_run(inner, &id, epoch, Fault::ShutDown { run: id.clone() }).await;
            }
        }
        Err(fault) => match end_unread(inner, &record, &fault).await {
            true => {}
            false => release_run(inner, &id, epoch, fault).await,
        },
    }
}

/// Waits until an earlier claim of this worker on a run that it has claimed is over, for a lease at most. Where it is not,
/// the run is released: a body of it may stand still and go on, and as long as that is so nobody may be told that this worker
/// has noticed its loss. A claim that is active already is not launched again, nor released, which would be the active one's
/// end; a run of the same id that was created meanwhile is found among those that are owned and not advanced.
async fn former_claim_is_over(inner: &Arc<Inner>, claimed: &RunRecord) -> bool {
    let environment = &inner.shared.environment;
    let until = environment.monotonic().saturating_add(inner.settings.lease);
    loop {
        let former = inner.active().get(&claimed.id).map(|active| active.run.epoch);
        let Some(former) = former.filter(|former| *former <= claimed.epoch) else { return true };
        if former == claimed.epoch {
            warn!(target: log::RUN, run = %claimed.id, epoch = former, "a claim was given twice; its run is advanced once");
            return false;
        }
        let (run, found) = (claimed.id.clone(), claimed.epoch);
        let fault = match inner.takes_runs() {
            true if environment.monotonic() < until => None,
            true => Some(AppendError::StaleEpoch { run, held: former, found }.into()),
            false => Some(Fault::ShutDown { run }),
        };
        if let Some(fault) = fault {
            release_run(inner, &claimed.id, found, fault).await;
            return false;
        }
        environment.sleep(FORMER_LOOK).await;
    }
}

/// How often it is looked at.
const FORMER_LOOK: Duration = Duration::from_millis(2);

/// From when on the run may begin, where that is later than now.
pub(crate) fn begins_later(inner: &Inner, run: &RunRecord) -> Option<Timestamp> {
    run.terms.not_before.filter(|begins| *begins > inner.shared.environment.now())
}

/// What a claim without a slot allows.
enum Permitted {
    All,
    Expire(Timestamp),
    /// To obey a request to end it.
    End(RunId),
}

/// Whether a claim allows no more than to end the run: it waits in a queue, and its first turn was not granted, or too late, or
/// to a worker whose code it did not fit. `begun`: its workflow has run.
fn ends_only(inner: &Inner, run: &RunRecord, begun: bool) -> Permitted {
    let started = run.queue.started_at;
    match run.terms.expires_at {
        _ if run.terms.queue.is_none() => Permitted::All,
        // A worker with other code may have claimed it for its turn before it looked at the time.
        Some(at) if !begun && started.is_some_and(|started| at <= started) => Permitted::Expire(at),
        // Or had its turn, and parked it.
        _ if started.is_some() && (begun || !run.parked) => Permitted::All,
        Some(at) if at <= inner.shared.environment.now() => Permitted::Expire(at),
        _ if started.is_some() => Permitted::All,
        _ => Permitted::End(run.id.clone()),
    }
}

impl Permitted {
    fn limit(self, launch: Launch) -> Launch {
        match self {
            Self::All => launch,
            Self::Expire(at) => Launch { expired: Some(at), ..launch },
            // Requests to end a run are obeyed before a fault is looked at, and need no code.
            Self::End(run) => Launch { lacks: launch.lacks.or(Some(Fault::NoSlot { run })), ..launch },
        }
    }
}

/// Begins to advance a run in a task of its own, in the engine's runtime. `None` where a drain or a shutdown has begun: the
/// caller releases the run; where a later claim of this worker advances it, or this very one does, or this one is given back;
/// and where the runtime has ended, and with it this worker's leases do.
pub(crate) fn launch_run(inner: &Arc<Inner>, launch: Launch) -> Option<Arc<Run>> {
    let Launch { origin, workflow, input, parent, needs, lacks, expired, unwinding, beginning, .. } = launch;
    let (is_takeover, events, is_claimed) = (origin.epoch > 1, origin.next, origin.read_since.is_some());
    let run = Run::new(Arc::clone(&inner.shared), origin);
    let cell = inner.cell(&run.id);
    // In one piece with the look at the drain, which takes all active runs with their tasks under this lock. Active
    // before the task runs: the task removes itself at its end, and a message that arrives from now on must find the run.
    let mut active = inner.active();
    if !inner.takes_runs() && !mutated("launched-while-stopping") {
        return None;
    }
    let is_known = |other: &Run| other.epoch > run.epoch || (is_claimed && other.epoch == run.epoch);
    if active.get(&run.id).is_some_and(|other| is_known(&other.run)) {
        return None;
    }
    if inner.let_go().has(&run.id, run.epoch) {
        return None;
    }
    // One whose creation was refused may not have left its thread: a drain waits for it by way of this one.
    let former = active.get_mut(&run.id).and_then(|other| other.task.take());
    // A former claim may have left `Stopped` here. Handles that see `None` wait for this claim's end.
    cell.set(None);
    if is_takeover {
        note_takeover(&run, unwinding.is_some());
    }
    let span = log::run_span(&run);
    let place = Place::new(inner, &run, cell);
    let listed = place.listed();
    let task = inner.runtime.spawn({
        let (inner, run) = (Arc::clone(inner), Arc::clone(&run));
        let advanced = async move {
            if let Some(former) = former {
                let _over = former.await;
            }
            log::begun(&run, events);
            let children = Some(Arc::clone(&inner.children));
            // A fault that is there before its code runs is looked at after requests to end the run: they need no code.
            let stopped = |fault| -> BoxFuture<'static, Completion> {
                let run = Arc::clone(&run);
                Box::pin(async move { run.stop(fault).await })
            };
            let body = || match lacks {
                Some(fault) => stopped(fault),
                None => match workflow.run(Arc::clone(&run), children, &input) {
                    Ok(body) => {
                        // Nothing is recorded that its code could differ from.
                        if run.is_proven() {
                            run.adopt();
                        }
                        body
                    }
                    Err(error) => stopped(input_fault(&run, error)),
                },
            };
            let advanced = async {
                let completion = match unwinding {
                    Some(Unwinding { end, history }) => {
                        run.adopt();
                        Ok(RunCompletion::resumed(&run, end, history))
                    }
                    None if let Some(at) = expired => RunCompletion::of(&run, DriveEnd::Expired(at)),
                    None => match begin(&run, beginning).await {
                        Ok(()) => RunCompletion::of(&run, drive(&run, body()).await),
                        Err(end) => RunCompletion::of(&run, end),
                    },
                };
                conclude(&inner, &run, completion, parent, &needs).await
            };
            let end = match AssertUnwindSafe(advanced).catch_unwind().await {
                Ok(end) => end,
                Err(panic) if mutated("destructors-escape") => resume_unwind(panic),
                Err(panic) => {
                    let message = inner.shared.redaction.text(panic_message(&*panic));
                    let fault = Fault::Panicked { run: run.id.clone(), message };
                    // As in `conclude`: what is on its way to the store arrives first.
                    run.watermark().settled().await;
                    stop_run(&inner, &run, fault, &needs).await;
                    None
                }
            };
            place.leave(end);
        };
        advanced.instrument(span)
    });
    active.insert(run.id.clone(), Active { run: Arc::clone(&run), task: Some(task), is_dropped: false });
    if listed.swap(true, Ordering::AcqRel) {
        // It was dropped before it was listed.
        active.remove(&run.id);
        return None;
    }
    Some(run)
}

/// What a fork does before its workflow runs.
async fn begin(run: &Arc<Run>, beginning: Option<Beginning>) -> Result<(), DriveEnd> {
    match beginning {
        Some(beginning) => beginning.complete(run).await,
        None => Ok(()),
    }
}

/// Records that the run was claimed again: by another worker, or by this one after a release. One that is `undoing` its steps
/// waits for no code.
fn note_takeover(run: &Run, undoing: bool) {
    let event = RunRequeued { worker: run.shared.worker.clone(), reason: format!("epoch {}", run.epoch) };
    let wake_at = Some(run.now());
    let status =
        StatusChange { status: Status::Running, wake_at, release: false, seen: run.seen(), notify: None };
    let code = if undoing { run.unpark() } else { None };
    run.append(vec![event.into()], AppendExtras { status: Some(status), code, ..AppendExtras::default() });
}

fn input_fault(run: &Run, error: PayloadError) -> Fault {
    Fault::Input { run: run.id.clone(), workflow: run.def.name.into(), error }
}

/// Ends, suspends or releases a run whose drive has ended. Returns the end if there is one.
async fn conclude(
    inner: &Arc<Inner>,
    run: &Arc<Run>,
    completion: Result<RunCompletion, DriveEnd>,
    parent: Option<RunId>,
    recorded_by: &RunCode,
) -> Option<RunEnd> {
    let parent_id = parent.clone();
    let ended = match completion {
        Ok(completion) => completion.finish(run, &*inner.children, parent).await,
        Err(end) => Err(end),
    };
    let fault = match ended {
        Ok(end) => {
            if let Some(parent) = parent_id {
                notify_parent(inner, &parent, &run.id).await;
            }
            log::ended(&run.id, &end);
            return Some(end);
        }
        Err(DriveEnd::Suspended { until, on, seen }) => match suspend(run, until, on, seen).await {
            Ok(()) => return None,
            Err(DriveEnd::Fault(fault)) => fault,
            Err(_) => return None,
        },
        Err(DriveEnd::Renewed(next)) => match renew(run, &*inner.children, parent_id, next).await {
            // Free and due: the next claim, mostly this worker's, begins the new generation.
            Ok(()) => return None,
            Err(DriveEnd::Fault(fault)) => fault,
            Err(_) => return None,
        },
        Err(DriveEnd::Fault(fault)) => fault,
        Err(_) => return None,
    };
    if matches!(fault, Fault::Append(AppendError::StaleEpoch { .. })) {
        // Another worker owns the run and will end it; handles read that end from the store. Nothing is released: the
        // release would be the other worker's.
        inner.shared.gauge.lost_lease();
        return None;
    }
    record_known(run).await;
    // Released only when nothing is on its way to the store any more, or the next owner would read a journal that still
    // grows.
    run.watermark().settled().await;
    stop_run(inner, run, fault, recorded_by).await;
    None
}

/// Records what is known of calls that were cut off with a run that is about to be released: who won, what bodies had come back
/// with, and what was not called. Whoever goes on with the run finds it. A fault that appends no more leaves it out.
pub(crate) async fn record_known(run: &Arc<Run>) {
    let _goes_on_elsewhere = run.take_misfit();
    let known = async {
        for race in run.undecided_races() {
            decide(run, &race).await;
        }
        run.append_known().await;
        run.append_uncalled().await;
    };
    let _recorded_or_stopped = unless_failed(run, known).await;
}

/// Parks a run that this program's code does not fit, and releases any other. All its appends are durable or refused.
async fn stop_run(inner: &Arc<Inner>, run: &Run, fault: Fault, recorded_by: &RunCode) {
    // Adopted in this claim: then this program's code recorded what it does not fit.
    let needs = if run.has_adopted() { run_code(run.def) } else { recorded_by.clone() };
    let held = Held { run: &run.id, epoch: run.epoch, next: run.next(), seen: run.seen(), tried_live: true };
    park_or_release(inner, held, fault, needs).await;
}

/// Parks a run that this program's code does not fit, and releases any other.
async fn park_or_release(inner: &Arc<Inner>, held: Held<'_>, fault: Fault, needs: RunCode) {
    let (run, epoch) = (held.run.clone(), held.epoch);
    if fault.needs_other_code() && !mutated("misfits-are-not-parked") {
        match park(inner, held, &fault, needs).await {
            Ok(()) | Err(AppendError::StaleEpoch { .. } | AppendError::RunEnded { .. }) => return,
            Err(error) => warn!(target: log::RUN, %run, %error, "cannot park a run yet"),
        }
    }
    release_run(inner, &run, epoch, fault).await;
}

/// Releases a run that cannot be advanced here and now.
pub(crate) async fn release_run(inner: &Arc<Inner>, run: &RunId, epoch: Epoch, fault: Fault) {
    let now = inner.shared.environment.now();
    let wake_at = match &fault {
        Fault::ShutDown { .. } | Fault::Append(AppendError::AskedToEnd { .. }) => now,
        Fault::Store(StoreError::Codec { .. }) => later(now, AFTER_STOP),
        Fault::Append(_) | Fault::Store(_) => later(now, AFTER_FAULT),
        _ => later(now, AFTER_STOP),
    };
    if let Fault::Store(error) = &fault {
        inner.shared.gauge.store_failed(error.kind());
    }
    match &fault {
        Fault::ShutDown { .. } | Fault::Append(AppendError::AskedToEnd { .. }) => {
            debug!(target: log::RUN, %run, "run released; its next claim resumes it");
        }
        fault => error!(target: log::RUN, %run, %fault, "run stopped; nothing of it was lost"),
    }
    // Before the release: after it the run may be claimed at once, and that claim clears the cell.
    inner.cell(run).set(Some(RunEnd::Stopped(fault)));
    give_back(inner, run, epoch, wake_at).await;
}

/// Gives a run back to the store, due at `wake_at`.
async fn give_back(inner: &Arc<Inner>, run: &RunId, epoch: Epoch, wake_at: Timestamp) {
    if let Err(error) = inner.shared.store.release(&inner.shared.worker, run, epoch, wake_at).await
        && !mutated("released-once")
    {
        warn!(target: log::RUN, %run, %error, "cannot release a run yet");
        inner.spawn(retry_release(Arc::clone(inner), run.clone(), epoch, wake_at));
    }
}

/// Releases a run as soon as the store allows. This worker renews all its leases, so without it the run would keep an
/// owner that does not advance it. An engine that stops frees whatever it still holds.
async fn retry_release(inner: Arc<Inner>, run: RunId, epoch: Epoch, wake_at: Timestamp) {
    let shared = &inner.shared;
    let mut wait = inner.settings.poll;
    while !inner.is_stopping() {
        shared.environment.sleep(wait).await;
        match shared.store.release(&shared.worker, &run, epoch, wake_at).await {
            // Nothing to release: the run is gone, or another epoch owns it. A closed store takes nothing any more.
            Ok(()) | Err(StoreError::UnknownRun { .. } | StoreError::Closed { .. }) => return,
            // Also where the error is not retryable: a full disk may have room again.
            Err(_) => wait = (wait * 2).min(LONGEST_WAIT.max(inner.settings.poll)),
        }
    }
}
