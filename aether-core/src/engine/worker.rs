//! The engine's tasks: claiming runs that nobody advances, keeping leases, advancing each run in a task of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, join_all, select};
use jiff::Timestamp;

use super::{Active, Inner};
use crate::closing::{Closing, suspend};
use crate::contract::Status;
use crate::effect_store;
use crate::event::{Event, RunCreated, RunRequeued};
use crate::fault::{Divergence, Fault};
use crate::id::{Epoch, RunId};
use crate::journal::{StoredFrame, read_verified};
use crate::obligations::Obligations;
use crate::payload::{Payload, PayloadError};
use crate::policy::Mode;
use crate::replay::History;
use crate::run::{Origin, Riders, Run};
use crate::step::{Completion, RegisteredWorkflow};
use crate::store::{AppendError, ClaimRequest, Lease, RunFilter, StatusChange, Store, StoreError};
use crate::turn::{RunEnd, TurnEnd, turn};
use crate::world::later;

/// How long a run that could not be advanced is left alone.
const AFTER_FAULT: Duration = Duration::from_secs(5);
/// How long a run that does not fit this program is left alone.
const AFTER_DIVERGENCE: Duration = Duration::from_secs(60);

/// Starts the engine's own tasks.
pub(super) fn begin(inner: &Arc<Inner>) {
    tokio::spawn(schedule(Arc::clone(inner)));
    tokio::spawn(keep_leases(Arc::clone(inner)));
}

/// Claims what is due, until the engine stops; then lets go of everything.
async fn schedule(inner: Arc<Inner>) {
    let host = Arc::clone(&inner.host);
    warn_of_unlinked(&inner).await;
    while !inner.is_stopping() {
        let kicked = inner.kick.notified();
        // Begun before looking: what comes in between is found by the next look, and not by the one after it.
        let next_look = host.world.sleep(inner.settings.poll);
        match claim(&inner, None).await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => tracing::warn!(%error, "cannot claim runs"),
        }
        look_into_inboxes(&inner).await;
        let next_due = match host.store.next_wake().await {
            Ok(Some(due)) if due > host.world.now() => host.world.sleep_until(due),
            _ => Box::pin(std::future::pending()),
        };
        select(Box::pin(kicked), select(next_look, next_due)).await;
    }
    if !inner.active().is_empty() {
        let _released_as_far_as_possible = shut_down(&inner, Duration::ZERO).await;
    }
}

/// Says which open runs this program cannot advance.
async fn warn_of_unlinked(inner: &Inner) {
    for status in [Status::Pending, Status::Running, Status::Waiting] {
        let filter = RunFilter { status: Some(status), limit: 1_000, ..RunFilter::default() };
        for run in inner.host.store.runs(filter).await.unwrap_or_default() {
            if !inner.is_linked(&run.workflow) {
                let fault = not_linked(inner, &run.id, &run.workflow);
                tracing::warn!(run = %run.id, %fault, "an open run is left alone");
            }
        }
    }
}

/// Takes due runs (or just `only`) and begins to advance them. Returns how many.
pub(super) async fn claim(inner: &Arc<Inner>, only: Option<RunId>) -> Result<usize, StoreError> {
    let host = &inner.host;
    let room = inner.settings.max_active.saturating_sub(inner.active().len());
    if room == 0 {
        return Ok(0);
    }
    let now = host.world.now();
    renew_overdue(inner, now).await;
    let request = ClaimRequest {
        worker: host.worker.clone(),
        now,
        lease_until: later(now, inner.settings.lease),
        limit: room.min(256),
        workflows: inner.workflow_names(),
        only,
    };
    let leases = host.store.claim(request).await?;
    let claimed = leases.len();
    for lease in leases {
        recover(inner, lease).await;
    }
    Ok(claimed)
}

/// Messages that other processes sent to runs that wait here.
async fn look_into_inboxes(inner: &Arc<Inner>) {
    let looks = |run: &Run| run.lingers() || run.is_waiting();
    let waiting: Vec<_> =
        inner.active().values().filter(|a| looks(&a.run)).map(|a| Arc::clone(&a.run)).collect();
    for run in waiting {
        if let Ok(inbox) = inner.host.store.inbox(&run.id).await {
            run.poke(inbox);
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
    let host = &inner.host;
    let now = host.world.now();
    match host.store.renew(&host.worker, later(now, inner.settings.lease)).await {
        Ok(()) => inner.renewed.store(now.as_microsecond(), Ordering::Release),
        Err(error) => tracing::warn!(%error, "cannot renew leases"),
    }
}

async fn keep_leases(inner: Arc<Inner>) {
    let host = Arc::clone(&inner.host);
    let period = inner.settings.lease / 3;
    loop {
        host.world.sleep(period).await;
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

/// A run that is to be advanced.
pub(super) struct Launch {
    pub(super) origin: Origin,
    pub(super) workflow: RegisteredWorkflow,
    pub(super) input: Payload,
    pub(super) parent: Option<RunId>,
    /// Where a crash cut off the undoing of its steps.
    pub(super) unwinding: Option<Unwinding>,
}

/// Takes up a run from its journal.
async fn recover(inner: &Arc<Inner>, lease: Lease) {
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

async fn load(inner: &Arc<Inner>, lease: Lease) -> Result<Launch, Fault> {
    let (record, store) = (lease.run, &inner.host.store);
    let frames = store.load(&record.id, 0).await?;
    let inbox = store.inbox(&record.id).await?;
    let effects = store.effects(&record.id).await?;
    let recovered = read(&**store, &record.id, &frames).await?;
    let Some(workflow) = inner.workflow(&recovered.created.workflow, &recovered.created.module) else {
        return Err(not_linked(inner, &record.id, &recovered.created.workflow));
    };
    Ok(Launch {
        origin: Origin {
            id: record.id,
            def: workflow.def,
            epoch: record.epoch,
            mode: Mode::Recover,
            seed: recovered.created.seed,
            next: recovered.next,
            history: recovered.history,
            obligations: recovered.obligations,
            inbox,
            effects,
        },
        workflow,
        input: recovered.created.input,
        parent: recovered.created.parent,
        unwinding: recovered.unwinding,
    })
}

pub(super) fn not_linked(inner: &Inner, run: &RunId, workflow: &str) -> Fault {
    let linked = inner.workflow_names().join(", ");
    Fault::NotLinked { run: run.clone(), workflow: workflow.into(), linked }
}

/// A journal, read.
pub(super) struct Read {
    pub(super) created: RunCreated,
    pub(super) next: u64,
    pub(super) history: History,
    pub(super) obligations: Obligations,
    pub(super) unwinding: Option<Unwinding>,
    pub(super) end: Option<Event>,
}

/// What a journal holds of the undoing of a run's steps.
pub(super) struct Unwinding {
    /// The event with which the run was to end.
    pub(super) end: Event,
    /// What came after the workflow was over.
    pub(super) history: History,
}

/// Reads and checks a whole journal.
pub(super) async fn read(store: &dyn Store, run: &RunId, frames: &[StoredFrame]) -> Result<Read, Fault> {
    let journal = |error| Fault::Journal { run: run.clone(), error };
    let mut events = read_verified(frames).map_err(journal)?;
    effect_store::fill(store, run, frames, &mut events).await?;
    let next = events.len() as u64;
    let end = events.pop_if(|event| event.is_terminal());
    let obligations = Obligations::fold(&events);
    let begun = events.iter().position(|event| matches!(event, Event::RunUnwinding(_)));
    let mut after = begun.map(|at| events.split_off(at)).unwrap_or_default().into_iter();
    let unwinding = match after.next() {
        Some(Event::RunUnwinding(e)) => Some(Unwinding { end: *e.end, history: History::fold(after) }),
        _ => None,
    };
    let mut events = events.into_iter();
    let Some(Event::RunCreated(created)) = events.next() else {
        let error = crate::journal::JournalError::Unreadable {
            position: 0,
            reason: "a journal begins with `run_created`".into(),
        };
        return Err(journal(error));
    };
    Ok(Read { created, next, history: History::fold(events), obligations, unwinding, end })
}

/// Begins to advance a run in a task of its own.
pub(super) fn launch_run(inner: &Arc<Inner>, launch: Launch) -> Arc<Run> {
    let Launch { origin, workflow, input, parent, unwinding } = launch;
    let taken_up = origin.epoch > 1;
    let run = Run::new(Arc::clone(&inner.host), origin);
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
            let closing = match unwinding {
                Some(Unwinding { end, history }) => Ok(Closing::resumed(&run, end, history)),
                None => match body() {
                    Ok(body) => Closing::of(&run, turn(&run, body).await),
                    Err(error) => Err(unfit(&run, error)),
                },
            };
            let end = conclude(&inner, &run, closing, parent).await;
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

fn remove_active(inner: &Inner, run: &Run) {
    let mut active = inner.active();
    if active.get(&run.id).is_some_and(|a| a.run.epoch == run.epoch) {
        active.remove(&run.id);
    }
    drop(active);
    inner.kick.notify_one();
}

/// Says in the journal that another worker goes on.
fn note_takeover(run: &Run) {
    let event = RunRequeued { worker: run.host.worker.clone(), reason: format!("epoch {}", run.epoch) };
    let wake_at = Some(run.now());
    let status =
        StatusChange { status: Status::Running, wake_at, release: false, seen: run.seen(), notify: None };
    run.append(vec![event.into()], Riders { status: Some(status), ..Riders::default() });
}

fn unfit(run: &Run, error: PayloadError) -> TurnEnd {
    TurnEnd::Fault(Fault::Input { run: run.id.clone(), workflow: run.def.name.into(), error })
}

/// Brings a run that was polled to its end, if it has one, or gives it back. `None` when it was suspended.
async fn conclude(
    inner: &Arc<Inner>,
    run: &Arc<Run>,
    closing: Result<Closing, TurnEnd>,
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
                poke(inner, &parent).await;
            }
            return Some(end);
        }
        Err(TurnEnd::Suspended { until, on }) => match suspend(run, until, on).await {
            Ok(()) => return None,
            Err(TurnEnd::Fault(fault)) => fault,
            Err(_) => return None,
        },
        Err(TurnEnd::Fault(fault)) => fault,
        Err(_) => return None,
    };
    if matches!(fault, Fault::Append(AppendError::StaleEpoch { .. })) {
        // Its new owner will end it; handles learn of that from the store.
        return None;
    }
    let _flushed_or_failed = run.tail().reached(run.next()).await;
    give_up(inner, &run.id, run.epoch, fault.clone()).await;
    Some(RunEnd::Stopped(fault))
}

/// Gives a run back that cannot be advanced here and now.
async fn give_up(inner: &Arc<Inner>, run: &RunId, epoch: Epoch, fault: Fault) {
    let now = inner.host.world.now();
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
    if let Err(error) = inner.host.store.release(run, epoch, wake_at).await {
        tracing::warn!(%run, %error, "cannot give a run back yet");
        if error.is_retryable() {
            tokio::spawn(give_back_later(Arc::clone(inner), run.clone(), epoch, wake_at));
        }
    }
}

/// This worker goes on renewing all its leases, so a run that it could not give back would be nobody's for ever.
async fn give_back_later(inner: Arc<Inner>, run: RunId, epoch: Epoch, wake_at: Timestamp) {
    let host = &inner.host;
    while !inner.is_stopping() {
        host.world.sleep(inner.settings.poll).await;
        match host.store.release(&run, epoch, wake_at).await {
            Err(error) if error.is_retryable() => {}
            _ => return,
        }
    }
}

/// Tells a run that its inbox has changed, if it is advanced here.
pub(super) async fn poke(inner: &Arc<Inner>, run: &RunId) {
    let active = inner.active().get(run).map(|active| Arc::clone(&active.run));
    if let Some(active) = active
        && let Ok(inbox) = inner.host.store.inbox(run).await
    {
        active.poke(inbox);
    }
    inner.kick.notify_one();
}

/// Stops the engine: bodies may finish for `patience`, then every run is given back.
pub(super) async fn shut_down(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    inner.ended.get_or_init(|| stop_all(inner, patience)).await.clone()
}

async fn stop_all(inner: &Arc<Inner>, patience: Duration) -> Result<(), StoreError> {
    inner.stopping.store(true, Ordering::Release);
    inner.kick.notify_one();
    let active: Vec<(Arc<Run>, _)> =
        inner.active().values_mut().map(|a| (Arc::clone(&a.run), a.task.take())).collect();
    let world = &inner.host.world;
    let mut ends: Vec<BoxFuture<'_, ()>> = Vec::new();
    for (run, task) in active {
        run.begin_stopping();
        ends.push(Box::pin(async move {
            let Some(mut task) = task else { return };
            let limit = world.sleep(patience);
            if let Either::Right(((), _)) = select(&mut task, limit).await {
                task.abort();
                let _aborted = task.await;
                let _flushed_or_failed = run.tail().reached(run.next()).await;
                give_up(inner, &run.id, run.epoch, Fault::ShutDown { run: run.id.clone() }).await;
                remove_active(inner, &run);
            }
        }));
    }
    join_all(ends).await;
    let store = &inner.host.store;
    // Whoever else holds the store, such as another engine of this process, goes on using it. What this engine put
    // into it is durable: its runs were given back in the order of their appends.
    if Arc::strong_count(store) > 1 { Ok(()) } else { store.close().await }
}

/// A run that was replayed without executing anything, up to the end of its workflow.
pub(super) struct Replayed {
    pub(super) run: Arc<Run>,
    /// How its workflow's turn ended.
    pub(super) turned: TurnEnd,
    /// The event with which its workflow was over, and the run as of then, where its steps were undone.
    pub(super) unwinding: Option<(Event, Arc<Run>)>,
    /// Its recorded end.
    pub(super) end: Option<Event>,
}

/// Replays one run without executing anything.
pub(super) async fn replay(inner: &Arc<Inner>, id: &RunId) -> Result<Replayed, Fault> {
    let frames = inner.host.store.load(id, 0).await?;
    if frames.is_empty() {
        return Err(StoreError::UnknownRun { run: id.clone() }.into());
    }
    let Read { created, next, history, obligations, unwinding, end } =
        read(&*inner.host.store, id, &frames).await?;
    let Some(workflow) = inner.workflow(&created.workflow, &created.module) else {
        return Err(not_linked(inner, id, &created.workflow));
    };
    let replayed = |history| {
        let origin = Origin {
            id: id.clone(),
            def: workflow.def,
            epoch: 0,
            mode: Mode::Verify,
            seed: created.seed.clone(),
            next,
            history,
            obligations: obligations.clone(),
            inbox: Vec::new(),
            effects: Vec::new(),
        };
        Run::new(Arc::clone(&inner.host), origin)
    };
    let run = replayed(history);
    // A run of its own: the workflow's code may have gone on where history was cut off.
    let unwinding = unwinding.map(|Unwinding { end, history }| {
        let unwound = replayed(History::default());
        unwound.begin_unwinding(history);
        (end, unwound)
    });
    let body: BoxFuture<'static, Completion> = workflow
        .run(Arc::clone(&run), None, &created.input)
        .map_err(|error| Fault::Input { run: id.clone(), workflow: created.workflow.clone(), error })?;
    let turned = turn(&run, body).await;
    Ok(Replayed { run, turned, unwinding, end })
}

/// A divergence without sides: the results differ.
pub(super) fn other_result(run: &RunId) -> Fault {
    Fault::Diverged(Box::new(Divergence { run: run.clone(), recorded: None, requested: None }))
}

/// The time by the engine's clock.
pub(super) fn now(inner: &Inner) -> Timestamp {
    inner.host.world.now()
}
