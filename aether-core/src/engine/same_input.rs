//! Whether a run that exists was started with this input, in whatever encoding.
//!
//! Promise: the journal is read only where the digests differ, and then its first event alone.

use crate::engine::inner::Inner;
use crate::journal::event::Event;
use crate::run::program::RegisteredWorkflow;
use crate::run::requested::is_same;
use crate::store::error::StoreError;
use crate::store::read::events;
use crate::store::records::RunRecord;
use crate::vocabulary::payload::{Digest, Payload};

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
    let store = &*inner.shared.store;
    let frames = store.load_page(&existing.id, 0, 1).await?;
    let recorded = events(store, &existing.id, &frames).await?;
    let is_same_input = |recorded: &Payload| {
        is_same(recorded, digest, &|recorded| {
            Ok(inner.shared.redaction.value(workflow.normal_input(recorded)?))
        })
    };
    Ok(match recorded.as_slice() {
        // The input of a later generation is not what the run was started with. Former builds did not carry that.
        [_, Event::RunContinued(continued), ..] => continued.first_input.as_ref().is_some_and(is_same_input),
        [Event::RunCreated(created), ..] => is_same_input(&created.input),
        _ => false,
    })
}
