//! Creating the run of a decided record.
//!
//! Promise: it may be done by several at once and again after a crash, and there is one run. The record stays until the
//! run is there, and the run is created only while it stays: who was slow does not create it once more. What was gathered
//! becomes a run in any case, if need be under another id. A run is asked to end for one that replaces it once that is
//! there, and not before.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::admission::Admission;
use crate::engine::create::{NewRunOf, create_decided, fresh_id};
use crate::engine::inner::{Inner, now};
use crate::engine::keyed::record::{Stage, StartRecord};
use crate::engine::operate::send_end_request;
use crate::engine::same_input::difference;
use crate::inbox::decisions::EndRequest;
use crate::inbox::error::SendError;
use crate::run::program::RegisteredWorkflow;
use crate::store::error::StoreError;
use crate::store::queues::{KeyedStart, Limit};
use crate::store::records::{Created, Decision, RunRecord};
use crate::vocabulary::environment::later;
use crate::vocabulary::payload::{Digest, Payload};

/// When a start that gathered inputs is tried again because too many runs are open.
const NO_ROOM: Duration = Duration::from_secs(1);
/// When a record is looked at that only its run can free.
pub(super) const HELD: Duration = Duration::from_secs(3_600);

/// What came of completing a record.
#[derive(Debug)]
pub(super) enum Completed {
    /// The run is there; the record of one that was there before.
    Created(Option<Box<RunRecord>>),
    /// Too many runs are open. What was gathered is tried again.
    OverLimit { limit: Limit, open: u64 },
    /// The workflow is not linked here; a worker that has it completes the record.
    NotLinked,
    /// Another one has completed the record, or it was refused or changed: the key is to be looked at again.
    Gone,
}

/// Creates the run of a decided record, and notes that it is there.
pub(super) async fn complete(
    inner: &Arc<Inner>,
    start: &KeyedStart,
    record: StartRecord,
    admission: &Admission,
) -> Result<Completed, StoreError> {
    if record.stage == Stage::Refused {
        settle_refused(inner, start, record).await?;
        return Ok(Completed::Gone);
    }
    let terms = record.terms_at(now(inner));
    let StartRecord { run, module, version, input, labels, traceparent, .. } = record.clone();
    // A newer version stands in for one that is not linked. An older one does not: a worker that has the newer one does it.
    let linked = inner.workflow(&start.workflow, &module, version);
    let Some(workflow) = linked.filter(|linked| linked.def.version >= version) else {
        return Ok(Completed::NotLinked);
    };
    let is_gathered = terms.inputs > 0;
    let new = NewRunOf {
        workflow,
        id: run,
        input,
        parent: None,
        labels,
        traceparent,
        parent_epoch: None,
        terms,
        unique: false,
    };
    let store = &inner.shared.store;
    let decision = Decision::KeyedStart { name: start.name.clone(), revision: start.revision };
    let existing = match create_decided(inner, new, decision, admission.clone()).await? {
        Created::Existing(existing)
            if is_gathered && !holds(inner, &existing, &workflow, &record).await? =>
        {
            rename(inner, start, record).await?;
            return Ok(Completed::Gone);
        }
        Created::Existing(existing) => Some(existing),
        Created::New | Created::ParentLost => None,
        Created::DecisionGone => return Ok(Completed::Gone),
        Created::OverLimit { limit, open } if is_gathered => {
            // Its starts were answered.
            put(inner, start, &record, later(now(inner), NO_ROOM)).await?;
            return Ok(Completed::OverLimit { limit, open });
        }
        Created::OverLimit { limit, open } => {
            let is_refused = refuse(inner, start, record).await?;
            return Ok(if is_refused { Completed::OverLimit { limit, open } } else { Completed::Gone });
        }
    };
    if is_gathered {
        store.remove_keyed_start(&start.name, start.revision).await?;
    } else {
        let began = existing.as_ref().map_or_else(|| now(inner), |run| run.created_at);
        put_created(inner, start, record, began).await?;
    }
    Ok(Completed::Created(existing))
}

/// Whether a run that exists was started with what the record holds.
async fn holds(
    inner: &Inner,
    existing: &RunRecord,
    workflow: &RegisteredWorkflow,
    record: &StartRecord,
) -> Result<bool, StoreError> {
    let digest = Digest::of(&inner.shared.redaction.value(record.input.clone()));
    let digest = digest.map_err(|error| StoreError::Unencodable {
        what: format!("the input that is gathered for run `{}`", record.run),
        reason: error.to_string(),
    })?;
    Ok(difference(inner, existing, workflow, &digest).await?.is_none())
}

/// Another run took the id while inputs were gathered. Their starts were answered: they begin a run under an id of its own.
async fn rename(inner: &Inner, start: &KeyedStart, record: StartRecord) -> Result<(), StoreError> {
    let renamed = StartRecord { run: fresh_id(inner), ..record.clone() };
    tracing::warn!(
        target: "aether::engine", run = %record.run, begins = %renamed.run, name = start.name,
        "another run has taken the id for which inputs were gathered"
    );
    put(inner, start, &renamed, now(inner)).await?;
    inner.wake_gathering.notify_one();
    Ok(())
}

/// Gives a decided start up; says whether it was. First nobody may create its run any more, then it is known whether
/// somebody has.
async fn refuse(inner: &Arc<Inner>, start: &KeyedStart, record: StartRecord) -> Result<bool, StoreError> {
    let refused = StartRecord { stage: Stage::Refused, ..record };
    let due_at = later(now(inner), NO_ROOM);
    if !put(inner, start, &refused, due_at).await? {
        return Ok(false);
    }
    let start = KeyedStart { revision: start.revision.saturating_add(1), ..start.clone() };
    settle_refused(inner, &start, refused).await
}

/// Takes the key from a start that was refused, unless its run was created before that; says whether it did. The key goes
/// back to the run that was to be replaced: that was not asked to end.
async fn settle_refused(
    inner: &Arc<Inner>,
    start: &KeyedStart,
    record: StartRecord,
) -> Result<bool, StoreError> {
    let store = &inner.shared.store;
    if let Some(run) = store.run(&record.run).await? {
        return put_created(inner, start, record, run.created_at).await.map(|()| false);
    }
    match record.replaces.clone() {
        Some(run) => put_holder(inner, start, StartRecord { run, ..record }).await?,
        None => drop(store.remove_keyed_start(&start.name, start.revision).await?),
    }
    Ok(true)
}

/// Notes that the run of a record is there, and began then. What it replaces is asked to end before that: the note forgets it.
async fn put_created(
    inner: &Arc<Inner>,
    start: &KeyedStart,
    record: StartRecord,
    began: Timestamp,
) -> Result<(), StoreError> {
    end_replaced(inner, &record).await?;
    // Not by a clock that was ahead.
    let began = began.min(now(inner));
    let until = record.window.map(|window| later(began, window)).or(record.until);
    put_holder(inner, start, StartRecord { until, ..record }).await
}

/// Writes which run has the key.
async fn put_holder(inner: &Arc<Inner>, start: &KeyedStart, record: StartRecord) -> Result<(), StoreError> {
    let due_at = record.until.unwrap_or_else(|| later(now(inner), HELD));
    let holder = StartRecord { stage: Stage::Created, input: Payload::null(), replaces: None, ..record };
    // Where it is not there any more, another one has written that.
    put(inner, start, &holder, due_at).await.map(drop)
}

/// Asks the run that the one of this record replaces to end. Asked again, it does nothing more.
pub(super) async fn end_replaced(inner: &Arc<Inner>, record: &StartRecord) -> Result<(), StoreError> {
    let Some(replaced) = &record.replaces else { return Ok(()) };
    let reason = format!("run `{}` replaces it", record.run);
    let request = EndRequest { reason, actor: "singleton".into() };
    match send_end_request(inner, replaced, &request, false).await {
        Ok(_) | Err(SendError::Store(StoreError::UnknownRun { .. })) => {}
        Err(SendError::Store(error)) => return Err(error),
        Err(error) => {
            tracing::warn!(target: "aether::engine", run = %replaced, %error, "cannot cancel a replaced run");
        }
    }
    Ok(())
}

/// Writes a record in place of `start`; says whether that was still there.
pub(super) async fn put(
    inner: &Inner,
    start: &KeyedStart,
    record: &StartRecord,
    due_at: Timestamp,
) -> Result<bool, StoreError> {
    let next = record.write(&start.name, &start.workflow, (now(inner), due_at), start.revision)?;
    inner.shared.store.put_keyed_start(next, start.revision).await
}

/// Writes a record anew that was written by a clock that was ahead, if this one is to be believed; says whether it did.
pub(super) async fn bring_back(
    inner: &Inner,
    start: &KeyedStart,
    record: &StartRecord,
) -> Result<bool, StoreError> {
    let Some((record, due_at)) = record.brought_back(start.due_at, now(inner)) else { return Ok(false) };
    if !inner.steady.is_steady(&*inner.shared.environment) {
        return Ok(false);
    }
    // Where it is not there any more, another one has written it.
    put(inner, start, &record, due_at).await?;
    inner.wake_gathering.notify_one();
    Ok(true)
}
