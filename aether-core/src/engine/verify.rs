//! Verification: replaying a recorded run without executing anything.

use super::{Engine, worker};
use crate::event::Event;
use crate::fault::Fault;
use crate::id::RunId;
use crate::turn::{RunEnd, TurnEnd, terminal};

/// A replay that matched its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Number of answers in history.
    pub recorded: u64,
    /// Number of answers the code asked for.
    pub matched: u64,
}

/// Why a run could not be verified.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Code and history do not agree, or history ends before the code does.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The workflow panicked where it did not before.
    #[error("run `{run}`: the workflow panicked during verification: {message}")]
    Panicked {
        /// The run.
        run: RunId,
        /// What it said.
        message: String,
    },
}

impl Engine {
    /// Replays a run in verify mode: no model, tool, HTTP, clock or random call is made, and nothing is written.
    ///
    /// # Errors
    /// [`VerifyError`] naming the first command on which code and history differ, or the first unrecorded effect.
    pub async fn verify(&self, run: &RunId) -> Result<Verified, VerifyError> {
        let (replayed, recorded, end) = worker::replay(&self.inner, run).await?;
        let cancelled = matches!(recorded, Some(Event::RunCancelled(_)));
        let again = match end {
            TurnEnd::Done(completion) => RunEnd::of(&terminal(&replayed, completion)),
            // Code goes on where a cancellation cut history off.
            TurnEnd::Fault(Fault::Unrecorded { .. }) if cancelled => None,
            TurnEnd::Fault(fault) => return Err(fault.into()),
            TurnEnd::Panicked(message) => match recorded.as_ref().and_then(RunEnd::of) {
                Some(RunEnd::Failed { message: known, .. }) if known.contains(&message) => None,
                _ => return Err(VerifyError::Panicked { run: run.clone(), message }),
            },
            TurnEnd::Cancelled { .. } | TurnEnd::Suspended { .. } => None,
        };
        if let Some(fault) = replayed.leftover() {
            return Err(fault.into());
        }
        if let (Some(again), Some(recorded)) = (again, recorded)
            && RunEnd::of(&recorded).is_some_and(|recorded| recorded != again)
        {
            return Err(worker::other_result(run).into());
        }
        let (recorded, matched) = replayed.counts();
        Ok(Verified { recorded, matched })
    }
}
