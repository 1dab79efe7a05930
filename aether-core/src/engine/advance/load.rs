//! From a journal to a run that can be advanced.
//!
//! Promise: a journal that is damaged, or of a workflow that this program does not hold, is a fault of that run alone.

use std::sync::Arc;

use crate::engine::inner::Inner;
use crate::event::{Event, RunCreated};
use crate::fault::Fault;
use crate::id::RunId;
use crate::journal::{StoredFrame, read_verified};
use crate::obligations::Obligations;
use crate::payload::Payload;
use crate::policy::Mode;
use crate::program::RegisteredWorkflow;
use crate::replay::History;
use crate::run::Origin;
use crate::run_end::RunEnd;
use crate::store::{Lease, Store};
use crate::store_error::StoreError;

/// How a run ended, from the store.
pub(crate) async fn stored_end(inner: &Inner, run: &RunId) -> Result<Option<RunEnd>, StoreError> {
    let store = &inner.host.store;
    match store.run(run).await? {
        None => Err(StoreError::UnknownRun { run: run.clone() }),
        Some(record) if !record.status.is_terminal() => Ok(None),
        Some(_) => {
            let last = store.last_frame(run).await?;
            let events = crate::store_read::events(&**store, run, last.as_slice()).await?;
            Ok(events.iter().rev().find_map(RunEnd::of))
        }
    }
}
/// A run that is to be advanced.
pub(crate) struct Launch {
    pub(super) origin: Origin,
    pub(super) workflow: RegisteredWorkflow,
    pub(super) input: Payload,
    pub(super) parent: Option<RunId>,
    /// Where a crash cut off the undoing of its steps.
    pub(super) unwinding: Option<Unwinding>,
}
pub(crate) async fn load(inner: &Arc<Inner>, lease: Lease) -> Result<Launch, Fault> {
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
pub(crate) fn not_linked(inner: &Inner, run: &RunId, workflow: &str) -> Fault {
    let linked = inner.workflow_names().join(", ");
    Fault::NotLinked { run: run.clone(), workflow: workflow.into(), linked }
}
/// A journal, read.
pub(crate) struct Read {
    pub(super) created: RunCreated,
    pub(super) next: u64,
    pub(super) history: History,
    pub(super) obligations: Obligations,
    pub(super) unwinding: Option<Unwinding>,
    pub(super) end: Option<Event>,
}
/// What a journal holds of the undoing of a run's steps.
pub(crate) struct Unwinding {
    /// The event with which the run was to end.
    pub(super) end: Event,
    /// What came after the workflow was over.
    pub(super) history: History,
}
/// Reads and checks a whole journal.
pub(crate) async fn read(store: &dyn Store, run: &RunId, frames: &[StoredFrame]) -> Result<Read, Fault> {
    let journal = |error| Fault::Journal { run: run.clone(), error };
    let mut events = read_verified(frames).map_err(journal)?;
    crate::store_read::fill(store, run, frames, &mut events).await?;
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
