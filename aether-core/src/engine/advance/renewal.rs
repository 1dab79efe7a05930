//! From one generation of a run to the next: the workflow continues as new.
//!
//! Promise: one append ends the old journal and begins the new one; what the run owes, and what it was sent, goes along.

use std::collections::BTreeSet;

use crate::definition::def::WorkflowDef;
use crate::engine::advance::completion::{abandon, durable_or_fault, unless_failed};
use crate::engine::advance::drive::DriveEnd;
use crate::engine::code::{code_of, run_code};
use crate::engine::started_as::started_as;
use crate::journal::event::{Event, RunContinued, RunCreated};
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::log;
use crate::run::next_generation::NextGeneration;
use crate::run::program::Children;
use crate::store::api::StatusChange;
use crate::store::error::StoreError;
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
    // Their events would go with the old journal; what they say stays in the ledger.
    let (_events, extras) = abandon(run).await?;
    let carried = unless_failed(run, carried(run, children)).await??;
    let Stored { record, previous, started_as } = stored(run).await?;
    let events = vec![
        RunCreated {
            workflow: next.def.name.into(),
            module: next.def.module.into(),
            version: next.def.version,
            fingerprint: run_code(next.def).fingerprint,
            input: next.input,
            // That of the start, by which a start under the same id is told from another one.
            digest: record.digest,
            seed: run.seed.clone(),
            parent,
            labels: record.labels,
            forked_from: None,
        }
        .into(),
        RunContinued {
            generation: run.generation.number.saturating_add(1),
            previous,
            started_as,
            started_at: record.created_at,
            carried,
        }
        .into(),
    ];
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
    tracing::info!(target: log::RUN, run = %run.id, generation = run.generation.number + 1, events = events_before,
        "run continued as new");
    Ok(())
}

/// What only the store knows of the generation that ends.
struct Stored {
    record: RunRecord,
    /// Chain hash of its last frame.
    previous: String,
    started_as: String,
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
        let began = run.generation.began;
        let started_as = run.insist(|| Box::pin(started_as(&**store, &run.id, began))).await;
        let started_as = started_as.unwrap_or_else(|| record.workflow.clone());
        Ok(Stored { record, previous: hex(&last.chain), started_as })
    };
    unless_failed(run, read).await?.map_err(DriveEnd::Fault)
}

/// What the run owes, without the children that have ended.
async fn carried(run: &Run, children: &dyn Children) -> Result<Option<Payload>, DriveEnd> {
    let mut open = BTreeSet::new();
    for child in run.with_obligations(|obligations| obligations.children()) {
        if run.insist(|| children.ended(child.clone())).await.is_none() {
            open.insert(child);
        }
    }
    let carried = run.with_obligations(|obligations| obligations.carry(|child| open.contains(child)));
    if carried.is_empty() {
        return Ok(None);
    }
    let unencodable = |error| crate::run::append::unencodable(run, error);
    Payload::encode(&carried).map(Some).map_err(|error| DriveEnd::Fault(unencodable(error).into()))
}
