//! Children that came to be after their parents' ends: a worker that had lost the parent without knowing it created them, and
//! was gone before it could look once more.
//!
//! Promise: no workflow of a child begins whose parent has ended, or is being undone, and was to take the child with it. A child
//! that was there then has its request in its inbox. That a parent is being undone is seen for its first [`TAIL`] events.

use std::sync::Arc;

use crate::engine::advance::completion::passed_on;
use crate::engine::advance::read::read;
use crate::engine::farewells::Farewell;
use crate::engine::inner::Inner;
use crate::journal::event::Event;
use crate::run::fault::Fault;
use crate::run::program::ParentRun;
use crate::store::error::StoreError;
use crate::store::records::RunRecord;

/// So many of the newest events of a parent that has not ended are looked at for its decision to end.
const TAIL: u64 = 256;

/// Asks a child whose workflow has not run, and that nobody has asked, to end with its parent; says whether it did.
///
/// # Errors
/// The fault of the store, while which the child does not begin: nobody knows whether it may.
pub(super) async fn end_with_parent(inner: &Arc<Inner>, child: &RunRecord) -> Result<bool, Fault> {
    let Some(parent) = &child.parent else { return Ok(false) };
    // A parent that is gone does not say whether the child was to outlive it.
    let Some(parent) = inner.shared.store.run(parent).await? else { return Ok(false) };
    let farewell = match inner.farewells.of(&parent) {
        Some(known) => known,
        None => match farewell(inner, &parent, child).await? {
            Some(read) => {
                let read = Arc::new(read);
                inner.farewells.remember(&read);
                read
            }
            None => return Ok(false),
        },
    };
    if !farewell.children.contains(&child.id) {
        return Ok(false);
    }
    // Only its own child, and not one of a run that had its id before.
    let (life, request) = (farewell.life.clone(), farewell.request.clone());
    let asked = inner.children.end(life, child.id.clone(), request, farewell.at_once).await;
    asked.map_err(|error| Fault::not_sent(child.id.clone(), error))?;
    Ok(true)
}

/// What a run says to its children, where it has decided to end.
async fn farewell(inner: &Inner, parent: &RunRecord, child: &RunRecord) -> Result<Option<Farewell>, Fault> {
    if !has_decided(inner, parent).await? {
        return Ok(None);
    }
    let read = match read(&*inner.shared.store, &parent.id).await {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(None),
        Err(Fault::Store(error)) if !matches!(error, StoreError::Corrupt { .. }) => return Err(error.into()),
        Err(fault) => {
            tracing::warn!(target: "aether::engine", run = %child.id, %fault, "the parent of a run cannot be read; it begins");
            return Ok(None);
        }
    };
    let Some(end) = read.end.or(read.unwinding.map(|unwinding| unwinding.end)) else { return Ok(None) };
    Ok(Some(Farewell {
        parent: parent.id.clone(),
        created_at: parent.created_at,
        life: ParentRun::created(&parent.id, &read.created),
        children: read.obligations.children().into_iter().collect(),
        request: passed_on(&end, &parent.id),
        at_once: matches!(end, Event::RunTerminated(_)),
    }))
}

/// Whether a run has ended, or is being undone.
async fn has_decided(inner: &Inner, run: &RunRecord) -> Result<bool, Fault> {
    if run.status.is_terminal() {
        return Ok(true);
    }
    // Whoever created the child has the parent still, and has not decided anything behind its own back.
    if run.epoch <= 1 {
        return Ok(false);
    }
    let tail = inner.shared.store.load_page(&run.id, run.next.saturating_sub(TAIL), TAIL).await?;
    // Large values are not fetched for that, and a damaged frame is told where it is read for its own sake.
    let mut newest = tail.iter().filter_map(|frame| frame.events().ok()).flatten();
    Ok(newest.any(|event| matches!(event, Event::RunUnwinding(_))))
}
