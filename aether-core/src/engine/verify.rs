//! Verification: replaying a recorded run without executing anything.

use std::sync::Arc;

use super::worker::Replayed;
use super::{Engine, worker};
use crate::closing::terminal;
use crate::event::Event;
use crate::failure::Failure;
use crate::fault::Fault;
use crate::id::RunId;
use crate::run::Run;
use crate::turn::{RunEnd, TurnEnd, turn};
use crate::unwind::unwind;

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
        let Replayed { run: replayed, turned, unwinding, end } = worker::replay(&self.inner, run).await?;
        // With which event the workflow was over.
        let over = unwinding.as_ref().map(|(over, _)| over).or(end.as_ref());
        let cut_off = over.is_some_and(cuts_off);
        let again = match turned {
            TurnEnd::Done(completion) => Some(terminal(&replayed, completion)),
            // Code goes on where history was cut off.
            TurnEnd::Fault(Fault::Unrecorded { .. }) if cut_off => None,
            TurnEnd::Fault(fault) => return Err(fault.into()),
            TurnEnd::Panicked(message) => match over.and_then(RunEnd::of) {
                Some(RunEnd::Failed { message: known, .. }) if known.contains(&message) => None,
                _ => return Err(VerifyError::Panicked { run: run.clone(), message }),
            },
            TurnEnd::Cancelled { .. }
            | TurnEnd::Terminated { .. }
            | TurnEnd::Condemned(_)
            | TurnEnd::Suspended { .. } => None,
        };
        if let Some(fault) = replayed.leftover() {
            return Err(fault.into());
        }
        if let (Some(again), Some(over)) = (again, over)
            && !cut_off
            && again != without_uncompensated(over.clone())
        {
            return Err(worker::other_result(run).into());
        }
        let workflow = replayed.counts();
        let undone = match unwinding {
            Some((_, unwound)) => {
                replayed.hand_over_undos(&unwound);
                verify_unwinding(&unwound, end.as_ref()).await?
            }
            None => (0, 0),
        };
        Ok(Verified { recorded: workflow.0 + undone.0, matched: workflow.1 + undone.1 })
    }
}

/// Replays the undoing of a run's steps; returns the numbers of recorded and of matched answers.
async fn verify_unwinding(run: &Arc<Run>, end: Option<&Event>) -> Result<(u64, u64), VerifyError> {
    match turn(run, Box::pin(unwind(Arc::clone(run)))).await {
        // A termination cut it off.
        TurnEnd::Fault(Fault::Unrecorded { .. }) if matches!(end, Some(Event::RunTerminated(_))) => {}
        TurnEnd::Fault(fault) => return Err(fault.into()),
        TurnEnd::Panicked(message) => return Err(VerifyError::Panicked { run: run.id.clone(), message }),
        _ => {}
    }
    match run.leftover() {
        Some(fault) => Err(fault.into()),
        None => Ok(run.counts()),
    }
}

/// The event as the workflow alone makes it.
fn without_uncompensated(mut event: Event) -> Event {
    match &mut event {
        Event::RunCompleted(e) => e.uncompensated.clear(),
        Event::RunFailed(e) => e.uncompensated.clear(),
        _ => {}
    }
    event
}

/// Whether a run was ended from outside of its workflow: cancelled, terminated, or failed for good over a resource.
fn cuts_off(end: &Event) -> bool {
    match end {
        Event::RunCancelled(_) | Event::RunTerminated(_) => true,
        Event::RunFailed(e) => {
            e.error.decode::<Failure>().is_ok_and(|failure| failure.unconfirmed().is_some())
        }
        _ => false,
    }
}
