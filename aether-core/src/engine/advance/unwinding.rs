//! Undoing committed steps: at the end of a run that did not succeed, or in the workflow's code.
//!
//! Promise: steps are undone in the reverse order of their commitment, each by a recorded step of its own; one that
//! cannot be undone does not stop the others; after a crash in between it resumes where it stopped, without workflow code.

use std::sync::Arc;

use crate::perform::undo::undo;
use crate::run::claim::Run;
use crate::run::program::Completion;
use crate::vocabulary::payload::Payload;

/// Undoes what the run's end requires. Driven like a workflow, after the workflow has ended.
pub(crate) async fn unwind(run: Arc<Run>) -> Completion {
    for undoes in run.with_obligations(|obligations| obligations.plan()) {
        undo(&run, &undoes, None).await;
    }
    Ok(Ok(Payload::null()))
}
