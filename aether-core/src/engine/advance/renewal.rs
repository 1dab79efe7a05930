//! From one generation of a run to the next: the workflow continues as new.
//!
//! Promise: one append ends the old journal and begins the new one; what the run owes, and what it was sent, goes along.

use std::collections::BTreeSet;

use crate::definition::def::WorkflowDef;
use crate::engine::advance::completion::{abandon, durable_or_fault, unless_failed};
use crate::engine::advance::drive::DriveEnd;
use crate::engine::code::{code_of, run_code};
use crate::journal::event::forked::ForkedFrom;
use crate::journal::event::{Event, RunContinued, RunCreated};
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::log;
use crate::run::next_generation::NextGeneration;
use crate::run::program::Children;
use crate::sched::HashMap;
use crate::store::api::Store;
use crate::store::append::StatusChange;
use crate::store::error::StoreError;
use crate::store::read::events;
use crate::store::records::{CodeChange, RunRecord};
use crate::store::renewal::Renewal;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::RunId;
use crate::vocabulary::payload::{Payload, hex};

/// Begins the next generation of `run` and releases it, due at once; durable when it returns.
pub(crate) async fn renew(
    run: &Run,
    children: &dyn Children,
    parent: Option<RunId>,
    next: NextGeneration,
) -> Result<(), DriveEnd> {
    // A child that is being started right now would not be carried along.
    run.children_are_started().await;
    // Their events would go with the old journal; what they say stays in the ledger, and of calls that undo steps it is
    // carried along.
    let (abandoned, mut extras) = abandon(run).await?;
    // Commands of the next generation may have the same names.
    extras.streams = run.drop_streams(|_| true).await;
    let carried = unless_failed(run, carried(run, children, abandoned)).await??;
    let Stored { record, previous, first } = stored(run).await?;
    let mut events = vec![
        RunCreated {
            workflow: next.def.name.into(),
            module: next.def.module.into(),
            version: next.def.version,
            fingerprint: run_code(next.def).fingerprint,
            input: run.shared.redaction.value(next.input),
            // That of the start, by which a start under the same id is told from another one.
            digest: record.digest,
            seed: run.seed.to_string(),
            parent,
            labels: record.labels,
            forked_from: first.forked_from,
            terms: record.terms,
        }
        .into(),
        RunContinued {
            generation: run.generation.number.saturating_add(1),
            previous,
            started_as: first.started_as,
            started_at: record.created_at,
            carried,
            first_input: first.input,
            spent: run.carried_spend(),
        }
        .into(),
    ];
    // What a fork has not taken over yet: the next generation may ask for the same calls.
    events.extend(run.open_decisions().into_iter().map(Event::from));
    append(run, next.def, events, extras).await
}

async fn append(
    run: &Run,
    def: &'static WorkflowDef,
    events: Vec<Event>,
    extras: AppendExtras,
) -> Result<(), DriveEnd> {
    let (workflow, version) = (def.name.to_owned(), def.version);
    // Running and free: due like a run whose worker died. Messages that arrived meanwhile are unread in its inbox.
    let status = StatusChange {
        status: Status::Running,
        wake_at: Some(run.now()),
        release: true,
        seen: run.seen(),
        notify: None,
    };
    let extras = AppendExtras {
        status: Some(status),
        renews: Some(Renewal { workflow, version, began: run.generation.began }),
        code: Some(CodeChange::Adopted(code_of(def))),
        ..extras
    };
    let events_before = run.history_len();
    durable_or_fault(run, events, extras).await?;
    tracing::info!(target: log::RUN, run = %run.id, generation = run.generation.number.saturating_add(1), events = events_before,
        "run continued as new");
    Ok(())
}

/// What only the store knows of the generation that ends.
struct Stored {
    record: RunRecord,
    /// Chain hash of its last frame.
    previous: String,
    first: Beginning,
}

/// What the journal of the generation that ends says of the run's beginning.
struct Beginning {
    forked_from: Option<ForkedFrom>,
    started_as: String,
    /// Unknown where a former build continued the run.
    input: Option<Payload>,
}

/// Reads the run. Everything of this generation is durable by then.
async fn stored(run: &Run) -> Result<Stored, DriveEnd> {
    let store = &run.shared.store;
    let read = async {
        run.watermark().reached(run.next()).await?;
        let record = run.insist(|| store.run(&run.id)).await;
        let last = run.insist(|| store.last_frame(&run.id)).await;
        let found = record.zip(last).ok_or_else(|| StoreError::UnknownRun { run: run.id.clone() });
        let (record, last) = found.map_err(Fault::Store)?;
        let first = run.insist(|| Box::pin(beginning(&**store, run))).await;
        let first = first.ok_or_else(|| Fault::Store(StoreError::UnknownRun { run: run.id.clone() }))?;
        Ok(Stored { record, previous: hex(&last.chain), first })
    };
    unless_failed(run, read).await?.map_err(DriveEnd::Fault)
}

async fn beginning(store: &dyn Store, run: &Run) -> Result<Option<Beginning>, StoreError> {
    let frames = store.load_page(&run.id, run.generation.began, 1).await?;
    let mut recorded = events(store, &run.id, &frames).await?.into_iter();
    let Some(Event::RunCreated(created)) = recorded.next() else { return Ok(None) };
    let (started_as, input) = match recorded.next() {
        Some(Event::RunContinued(continued)) => (continued.started_as, continued.first_input),
        _ => (created.workflow, Some(created.input)),
    };
    Ok(Some(Beginning { forked_from: created.forked_from, started_as, input }))
}

/// What the run owes, without the children that have ended.
async fn carried(
    run: &Run,
    children: &dyn Children,
    abandoned: Vec<Event>,
) -> Result<Option<Payload>, DriveEnd> {
    let mut open = BTreeSet::new();
    for child in run.with_obligations(|obligations| obligations.children()) {
        if run.insist(|| children.ended(child.clone())).await.is_none() {
            open.insert(child);
        }
    }
    let begun = begun(run, abandoned).await;
    let carried = run.with_obligations(|obligations| obligations.carry(|child| open.contains(child), &begun));
    if carried.is_empty() {
        return Ok(None);
    }
    let unencodable = |error| crate::run::append::unencodable(run, error);
    Payload::encode(&carried).map(Some).map_err(|error| DriveEnd::Fault(unencodable(error).into()))
}

/// What is recorded of calls that undo steps and have no outcome, by their places; `abandoned` is not in the journal.
async fn begun(run: &Run, abandoned: Vec<Event>) -> HashMap<String, Vec<Event>> {
    let places = run.with_obligations(|obligations| obligations.begun_places());
    let mut begun = HashMap::<String, Vec<Event>>::default();
    if places.is_empty() {
        return begun;
    }
    let recorded = run.recorded_of(|command| places.contains(command.place())).await;
    for event in recorded.into_iter().chain(abandoned) {
        if let Some(place) = event.command().map(|command| command.place().to_owned()) {
            begun.entry(place).or_default().push(event);
        }
    }
    begun
}
