//! Creating the run of a decided record.
//!
//! Promise: it may be done by several at once and again after a crash, and there is one run. The record stays until the
//! run is there.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::engine::create::{NewRunOf, create_run};
use crate::engine::inner::{Inner, now};
use crate::engine::keyed::record::{Stage, StartRecord};
use crate::engine::operate::send_end_request;
use crate::inbox::decisions::EndRequest;
use crate::inbox::error::SendError;
use crate::store::error::StoreError;
use crate::store::queues::{KeyedStart, Limit};
use crate::store::records::{Created, RunRecord};
use crate::vocabulary::environment::later;
use crate::vocabulary::payload::Payload;

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
}

/// Creates the run of a decided record, and notes that it is there.
pub(super) async fn complete(
    inner: &Arc<Inner>,
    start: &KeyedStart,
    record: StartRecord,
) -> Result<Completed, StoreError> {
    let StartRecord { run, module, version, input, labels, traceparent, terms, replaces, until, .. } =
        record.clone();
    // A newer version stands in for one that is not linked. An older one does not: a worker that has the newer one does it.
    let linked = inner.workflow(&start.workflow, &module, version);
    let Some(workflow) = linked.filter(|linked| linked.def.version >= version) else {
        return Ok(Completed::NotLinked);
    };
    if let Some(replaced) = replaces {
        let request = EndRequest { reason: format!("run `{run}` replaces it"), actor: "singleton".into() };
        match send_end_request(inner, &replaced, &request, false).await {
            Ok(_) | Err(SendError::Store(StoreError::UnknownRun { .. })) => {}
            Err(SendError::Store(error)) => return Err(error),
            Err(error) => {
                tracing::warn!(target: "aether::engine", run = %replaced, %error, "cannot cancel a replaced run");
            }
        }
    }
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
    let existing = match create_run(inner, new, None).await? {
        Created::Existing(existing) => Some(existing),
        Created::New | Created::ParentLost => None,
        Created::OverLimit { limit, open } if is_gathered => {
            // Its starts were answered.
            put(inner, start, &record, later(now(inner), NO_ROOM)).await?;
            return Ok(Completed::OverLimit { limit, open });
        }
        Created::OverLimit { limit, open } => {
            store.remove_keyed_start(&start.name, start.revision).await?;
            return Ok(Completed::OverLimit { limit, open });
        }
    };
    if is_gathered {
        store.remove_keyed_start(&start.name, start.revision).await?;
    } else {
        let created = StartRecord { stage: Stage::Created, input: Payload::null(), replaces: None, ..record };
        let due_at = until.unwrap_or_else(|| later(now(inner), HELD));
        put(inner, start, &created, due_at).await?;
    }
    Ok(Completed::Created(existing))
}

/// Writes a record in place of `start`; says whether that was still there.
pub(super) async fn put(
    inner: &Inner,
    start: &KeyedStart,
    record: &StartRecord,
    due_at: Timestamp,
) -> Result<bool, StoreError> {
    let next = record.write(&start.name, &start.workflow, due_at, start.revision)?;
    inner.shared.store.put_keyed_start(next, start.revision).await
}
