//! Whether a run that exists is that of a start, and was started with this input, in whatever encoding.
//!
//! Promise: the journal is read only where the digests differ, and then its first event alone.

use crate::engine::inner::Inner;
use crate::engine::started_as::is_or_was;
use crate::journal::event::Event;
use crate::run::program::RegisteredWorkflow;
use crate::run::requested::is_same;
use crate::store::error::StoreError;
use crate::store::read::events;
use crate::store::records::RunRecord;
use crate::vocabulary::payload::{Digest, Payload};

/// What `existing` has that a start of `workflow` with the input of this digest has not; `None` where it is the run of such
/// a start.
pub(super) async fn difference(
    inner: &Inner,
    existing: &RunRecord,
    workflow: &RegisteredWorkflow,
    digest: &Digest,
) -> Result<Option<&'static str>, StoreError> {
    if existing.parent.is_some() {
        return Ok(Some("a parent: it is a child run"));
    }
    if !is_or_was(&*inner.shared.store, existing, workflow.def.name).await? {
        return Ok(Some("another workflow"));
    }
    let is_same = has_input(inner, existing, workflow, digest).await?;
    Ok((!is_same).then_some("another input"))
}

/// Whether `existing`, a run of `workflow`, has the input with this digest, or one that today's types read and write so.
pub(super) async fn has_input(
    inner: &Inner,
    existing: &RunRecord,
    workflow: &RegisteredWorkflow,
    digest: &Digest,
) -> Result<bool, StoreError> {
    if existing.digest == *digest {
        return Ok(true);
    }
    let first = first_input(inner, existing).await?;
    Ok(first.is_some_and(|recorded| is_same_input(inner, workflow, &recorded, digest)))
}

/// Whether a recorded input of `workflow` has this digest, as today's types read and write it.
pub(super) fn is_same_input(
    inner: &Inner,
    workflow: &RegisteredWorkflow,
    recorded: &Payload,
    digest: &Digest,
) -> bool {
    is_same(recorded, digest, &|recorded| Ok(inner.shared.redaction.value(workflow.normal_input(recorded)?)))
}

/// The input that a run was started with, where its journal tells.
pub(super) async fn first_input(inner: &Inner, existing: &RunRecord) -> Result<Option<Payload>, StoreError> {
    let store = &*inner.shared.store;
    let frames = store.load_page(&existing.id, 0, 1).await?;
    let mut recorded = events(store, &existing.id, &frames).await?.into_iter();
    Ok(match (recorded.next(), recorded.next()) {
        // The input of a later generation is not what the run was started with. Former builds did not carry that.
        (_, Some(Event::RunContinued(continued))) => continued.first_input,
        (Some(Event::RunCreated(created)), _) => Some(created.input),
        _ => None,
    })
}
