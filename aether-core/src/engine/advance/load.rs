//! From a journal to a run that can be advanced.
//!
//! Promise: a journal that is damaged, or of a workflow that is not linked into this program, is a fault of that run
//! alone.

use std::sync::Arc;

use crate::engine::advance::forking::Beginning;
use crate::engine::code::run_code;
use crate::engine::inner::Inner;
use crate::journal::code::recorded_code;
use crate::journal::event::{Event, RunCreated};
use crate::journal::frame::{StoredFrame, read_verified};
use crate::journal::generation::Generation;
use crate::journal::history::History;
use crate::journal::obligations::Obligations;
use crate::journal::spending::Spending;
use crate::policy::replay::Mode;
use crate::run::claim::Origin;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::run::program::RegisteredWorkflow;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::open_waits::OpenWaits;
use crate::store::records::Lease;
use crate::vocabulary::code::RunCode;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::Payload;

/// How a run ended, as the store has it; `None` while it is open.
pub(crate) async fn stored_end(inner: &Inner, run: &RunId) -> Result<Option<RunEnd>, StoreError> {
    let store = &inner.shared.store;
    match store.run(run).await? {
        None => Err(StoreError::UnknownRun { run: run.clone() }),
        Some(record) if !record.status.is_terminal() => Ok(None),
        Some(_) => {
            let last = store.last_frame(run).await?;
            let events = crate::store::read::events(&**store, run, last.as_slice()).await?;
            Ok(events.iter().rev().find_map(RunEnd::of))
        }
    }
}

/// Everything needed to advance a run.
pub(crate) struct Launch {
    pub(crate) origin: Origin,
    pub(crate) workflow: RegisteredWorkflow,
    pub(crate) input: Payload,
    pub(crate) parent: Option<RunId>,
    /// The code that recorded it last.
    pub(crate) needs: RunCode,
    /// That its workflow is not linked: it can only be ended.
    pub(crate) lacks: Option<Fault>,
    /// How far the undoing of its steps had come when it was interrupted.
    pub(crate) unwinding: Option<Unwinding>,
    /// It has not begun by this time, which was the latest: it can only be ended.
    pub(crate) expired: Option<jiff::Timestamp>,
    /// Of a fork: what it does before its workflow runs.
    pub(crate) beginning: Option<Beginning>,
}

/// Reads a claimed run from the store.
pub(crate) async fn load(inner: &Arc<Inner>, lease: Lease) -> Result<Launch, Fault> {
    let (record, store) = (lease.run, &inner.shared.store);
    let read_since = Some(inner.shared.environment.monotonic());
    let (recorded_by, is_parked) = (record.code.clone(), record.parked);
    let frames = store.load(&record.id, 0).await?;
    let inbox = store.inbox(&record.id, 0).await?;
    let effects = store.effects(&record.id).await?;
    // Nothing was sent before the first claim.
    let streams = if record.epoch > 1 { store.open_streams(&record.id).await? } else { Vec::new() };
    let recovered = read(&**store, &record.id, &frames).await?;
    let linked = inner.linked(&recovered.code);
    let lacks = linked.is_none().then(|| lacking(inner, &record.id, &recovered.code));
    let code = linked.map_or_else(|| recovered.code.clone(), |linked| run_code(linked.def));
    let workflow = linked.unwrap_or(RegisteredWorkflow::unlinked());
    let is_other = is_parked || recovered.parked || recorded_by != code.id() || recovered.code != code;
    if is_other && lacks.is_none() {
        inner.adoptions.note_code(code.id(), workflow.def);
    }
    Ok(Launch {
        origin: Origin {
            id: record.id,
            def: workflow.def,
            epoch: record.epoch,
            mode: Mode::Recover,
            seed: recovered.created.seed,
            traceparent: record.traceparent,
            next: recovered.next,
            generation: recovered.generation,
            history: recovered.history,
            obligations: recovered.obligations,
            spending: recovered.spending,
            open_waits: recovered.open_waits,
            inbox,
            effects,
            streams,
            queued: record.terms.queue.is_some(),
            read_since,
            adopts: (is_other && lacks.is_none()).then_some(code),
        },
        workflow,
        input: recovered.created.input,
        parent: recovered.created.parent,
        needs: recovered.code,
        lacks,
        expired: None,
        unwinding: recovered.unwinding,
        beginning: recovered.beginning,
    })
}

/// The fault of a run whose code is not linked, in this version or a newer one.
pub(crate) fn lacking(inner: &Inner, run: &RunId, code: &RunCode) -> Fault {
    match inner.workflow(&code.workflow, &code.module, code.version) {
        Some(older) => Fault::NewerVersion {
            run: run.clone(),
            workflow: code.workflow.clone(),
            recorded: code.version,
            linked: older.def.version,
        },
        None => not_linked(inner, run, &code.workflow),
    }
}

pub(crate) fn not_linked(inner: &Inner, run: &RunId, workflow: &str) -> Fault {
    let linked = inner.workflow_names().join(", ");
    Fault::NotLinked { run: run.clone(), workflow: workflow.into(), linked }
}

/// What a journal says of its run.
pub(crate) struct Read {
    pub(crate) created: RunCreated,
    /// The code that recorded it last.
    pub(crate) code: RunCode,
    pub(crate) parked: bool,
    pub(crate) next: u64,
    pub(crate) generation: Generation,
    pub(crate) history: History,
    pub(crate) obligations: Obligations,
    pub(crate) spending: Spending,
    pub(crate) open_waits: OpenWaits,
    pub(crate) unwinding: Option<Unwinding>,
    pub(crate) beginning: Option<Beginning>,
    pub(crate) end: Option<Event>,
}

/// The part of a journal in which a run's steps are undone.
pub(crate) struct Unwinding {
    /// The event with which the run was to end.
    pub(crate) end: Event,
    /// What was recorded after the workflow ended.
    pub(crate) history: History,
}

/// Reads and checks a whole journal.
pub(crate) async fn read(store: &dyn Store, run: &RunId, frames: &[StoredFrame]) -> Result<Read, Fault> {
    let journal = |error| Fault::Journal { run: run.clone(), error };
    let mut events = read_verified(frames).map_err(journal)?;
    crate::store::read::fill(store, run, frames, &mut events).await?;
    let first = frames.first().map_or(0, |frame| frame.position);
    let generation = Generation::of(first, &events);
    let next = first + events.len() as u64;
    let open_waits = OpenWaits::fold(frames, &events);
    let recorded = recorded_code(&events);
    let end = events.pop_if(|event| event.is_terminal());
    let obligations = Obligations::fold(&events);
    let spending = Spending::fold(&events);
    let begun = events.iter().position(|event| matches!(event, Event::RunUnwinding(_)));
    let mut after = begun.map(|at| events.split_off(at)).unwrap_or_default().into_iter();
    let unwinding = match after.next() {
        Some(Event::RunUnwinding(e)) => {
            // A run that is terminated while its steps are undone says so in a second one.
            let after: Vec<_> = after.collect();
            let newest = after.iter().rev().find_map(|event| match event {
                Event::RunUnwinding(e) => Some(e.end.clone()),
                _ => None,
            });
            Some(Unwinding { end: *newest.unwrap_or(e.end), history: History::fold(after) })
        }
        _ => None,
    };
    let beginning = Beginning::take(&mut events);
    let mut events = events.into_iter();
    let (Some(Event::RunCreated(created)), Some((code, parked))) = (events.next(), recorded) else {
        let error = crate::journal::frame::JournalError::Unreadable {
            position: first,
            reason: "a journal begins with `run_created`".into(),
        };
        return Err(journal(error));
    };
    Ok(Read {
        created,
        code,
        parked,
        next,
        generation,
        history: History::fold(events),
        obligations,
        spending,
        open_waits,
        unwinding,
        beginning,
        end,
    })
}
