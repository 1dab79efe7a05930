//! Children that came to be after their parents' ends: a worker that had lost the parent without knowing it created them, and
//! was gone before it could look once more.
//!
//! Promise: no workflow of a child begins whose parent has decided to end, and to take the child with it, before the child
//! was there. A child that was there then has its request in its inbox.

use std::sync::Arc;

use crate::engine::advance::completion::passed_on;
use crate::engine::advance::read::read;
use crate::engine::inner::Inner;
use crate::journal::event::Event;
use crate::run::fault::Fault;
use crate::run::program::ParentRun;
use crate::store::error::StoreError;
use crate::store::records::RunRecord;

/// Asks a child whose workflow has not run to end with its parent, where nobody could ask it.
///
/// # Errors
/// The fault of the store, while which the child does not begin: nobody knows whether it may.
pub(super) async fn end_with_parent(inner: &Arc<Inner>, child: &RunRecord) -> Result<(), Fault> {
    let Some(parent) = &child.parent else { return Ok(()) };
    let store = &inner.shared.store;
    // A parent that is gone does not say whether the child was to outlive it.
    let Some(record) = store.run(parent).await? else { return Ok(()) };
    // Whoever created the child has the parent still, and has not decided anything behind its own back.
    if !record.status.is_terminal() && record.epoch <= 1 {
        return Ok(());
    }
    let read = match read(&**store, parent).await {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(()),
        Err(Fault::Store(error)) if !matches!(error, StoreError::Corrupt { .. }) => return Err(error.into()),
        Err(fault) => {
            tracing::warn!(target: "aether::engine", run = %child.id, %fault, "the parent of a run cannot be read; it begins");
            return Ok(());
        }
    };
    let ends: Option<Event> = read.end.or(read.unwinding.map(|unwinding| unwinding.end));
    let Some(end) = ends.filter(|_| read.obligations.children().contains(&child.id)) else { return Ok(()) };
    let (request, at_once) = (passed_on(&end, parent), matches!(end, Event::RunTerminated(_)));
    // Only its own child, and not one of a run that had its id before.
    let parent = ParentRun::created(parent, &read.created);
    let asked = inner.children.end(parent, child.id.clone(), request, at_once).await;
    asked.map_err(|error| Fault::not_sent(child.id.clone(), error))
}
