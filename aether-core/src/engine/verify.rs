//! Verification: replaying a recorded run without executing anything.

use super::{Engine, worker};
use crate::event::Event;
use crate::failure::Failure;
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
        let cut_off = recorded.as_ref().is_some_and(cuts_off);
        let again = match end {
            // Code goes on where history was cut off.
            TurnEnd::Done(_) | TurnEnd::Fault(Fault::Unrecorded { .. }) if cut_off => None,
            TurnEnd::Done(completion) => RunEnd::of(&terminal(&replayed, completion)),
            TurnEnd::Fault(fault) => return Err(fault.into()),
            TurnEnd::Panicked(message) => match recorded.as_ref().and_then(RunEnd::of) {
                Some(RunEnd::Failed { message: known, .. }) if known.contains(&message) => None,
                _ => return Err(VerifyError::Panicked { run: run.clone(), message }),
            },
            TurnEnd::Cancelled { .. } | TurnEnd::Condemned(_) | TurnEnd::Suspended { .. } => None,
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

/// Whether a run was ended from outside of its workflow: cancelled, or failed for good over a resource.
fn cuts_off(end: &Event) -> bool {
    match end {
        Event::RunCancelled(_) => true,
        Event::RunFailed(e) => {
            e.error.decode::<Failure>().is_ok_and(|failure| failure.unconfirmed().is_some())
        }
        _ => false,
    }
}
