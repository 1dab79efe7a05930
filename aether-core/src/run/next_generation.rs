//! What a run continues with when its workflow continues as new, and why it may be refused.
//!
//! Promise: plain values.

use crate::definition::def::WorkflowDef;
use crate::vocabulary::limits::OverLimit;
use crate::vocabulary::payload::{Payload, PayloadError};

/// What the next generation of a run begins with.
#[derive(Clone, Debug)]
pub(crate) struct NextGeneration {
    /// Its workflow.
    pub(crate) def: &'static WorkflowDef,
    /// Its input.
    pub(crate) input: Payload,
}

/// Why a workflow cannot continue as new. Nothing was written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ContinueError {
    /// It was called in a branch, in an inline workflow or in another scope below the root.
    #[error(
        "only the run's own workflow can, and this is scope `{scope}` below it: return from there, and call it in the body of the run's workflow"
    )]
    NotInRoot {
        /// The scope.
        scope: String,
    },
    /// The state cannot be written as JSON.
    #[error("the state cannot be recorded: {0}")]
    State(PayloadError),
    /// The state is over a limit.
    #[error("the state is too large: {0}")]
    OverLimit(OverLimit),
}
