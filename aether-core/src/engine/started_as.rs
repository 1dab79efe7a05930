//! Which workflow a run was started as: it may have continued as another one.
//!
//! Promise: nothing is read where the names agree.

use crate::journal::event::Event;
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::records::RunRecord;
use crate::vocabulary::id::{Position, RunId};

/// The workflow of the run's first generation, as its journal names it; `None` in a first generation. `began` is at or
/// before the beginning of the journal.
pub(crate) async fn started_as(
    store: &dyn Store,
    run: &RunId,
    began: Position,
) -> Result<Option<String>, StoreError> {
    let first = store.load_page(run, began, 1).await?;
    // A journal that cannot be read becomes a fault when the run is claimed.
    let events = first.first().and_then(|frame| frame.events().ok()).unwrap_or_default();
    Ok(events.into_iter().find_map(|event| match event {
        Event::RunContinued(e) => Some(e.started_as),
        _ => None,
    }))
}

/// Whether a run is of this workflow now, or was started as it.
pub(crate) async fn is_or_was(
    store: &dyn Store,
    record: &RunRecord,
    workflow: &str,
) -> Result<bool, StoreError> {
    Ok(record.workflow == workflow || started_as(store, &record.id, 0).await?.as_deref() == Some(workflow))
}
