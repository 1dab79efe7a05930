//! From a journal to a run that can be advanced.
//!
//! Promise: a journal that is damaged, or of a workflow that is not linked into this program, is a fault of that run
//! alone.

use std::sync::Arc;

use crate::engine::advance::forking::Beginning;
use crate::engine::advance::late_child::end_with_parent;
use crate::engine::advance::read::{Read, Unwinding, read_own};
use crate::engine::code::run_code;
use crate::engine::inner::Inner;
use crate::policy::replay::Mode;
use crate::run::claim::Origin;
use crate::run::end::RunEnd;
use crate::run::fault::Fault;
use crate::run::program::RegisteredWorkflow;
use crate::store::append::END_REQUESTS;
use crate::store::error::StoreError;
use crate::store::records::{Lease, Message, RunRecord};
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
    /// Whether its workflow has run, as far as that is recorded.
    pub(crate) begun: bool,
    /// That its workflow is not linked: it can only be ended.
    pub(crate) lacks: Option<Fault>,
    /// How far the undoing of its steps had come when it was interrupted.
    pub(crate) unwinding: Option<Unwinding>,
    /// It has not begun by this time, which was the latest: it can only be ended.
    pub(crate) expired: Option<jiff::Timestamp>,
    /// Of a fork: what it does before its workflow runs.
    pub(crate) beginning: Option<Beginning>,
}

pub(super) fn is_end_request(message: &Message) -> bool {
    END_REQUESTS.contains(&message.topic.as_str())
}

/// Reads a claimed run from the store.
pub(crate) async fn load(inner: &Arc<Inner>, lease: Lease) -> Result<Launch, Fault> {
    let (record, store) = (lease.run, &inner.shared.store);
    let read_since = Some(inner.shared.environment.monotonic());
    let (recorded_by, is_parked) = (record.code.clone(), record.parked);
    let recovered = read_own(&**store, &record.id).await?;
    let mut inbox = store.inbox(&record.id, 0).await?;
    if !recovered.begun && !inbox.iter().any(is_end_request) && end_with_parent(inner, &record).await? {
        inbox = store.inbox(&record.id, 0).await?;
    }
    let effects = store.effects(&record.id).await?;
    // Nothing was sent before the first claim.
    let streams = if record.epoch > 1 { store.open_streams(&record.id).await? } else { Vec::new() };
    let linked = inner.linked(&recovered.code);
    let lacks = linked.is_none().then(|| lacking(inner, &record.id, &recovered.code));
    let code = linked.map_or_else(|| recovered.code.clone(), |linked| run_code(linked.def));
    let workflow = linked.unwrap_or(RegisteredWorkflow::unlinked());
    let is_other = is_under_other_code(&record, &recovered, &code);
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
            birth: None,
            parked: is_parked.then(|| recorded_by.clone()),
            same_code: recovered.code == code && recorded_by == code.id(),
            adopts: (is_other && lacks.is_none()).then_some(code),
        },
        workflow,
        input: recovered.created.input,
        parent: recovered.created.parent,
        needs: recovered.code,
        begun: recovered.begun,
        lacks,
        expired: None,
        unwinding: recovered.unwinding,
        beginning: recovered.beginning,
    })
}

/// Whether `code` adopts a run when it advances it: other code recorded it, or it is parked.
pub(crate) fn is_under_other_code(record: &RunRecord, read: &Read, code: &RunCode) -> bool {
    record.parked || read.parked || record.code != code.id() || read.code != *code
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
