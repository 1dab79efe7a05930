//! Verification: replaying a recorded run without executing anything.
//!
//! Promise: no body is called and nothing is written; the first difference between code and history is named.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::advance::completion::terminal;
use crate::engine::advance::drive::{DriveEnd, drive};
use crate::engine::advance::load::lacking;
use crate::engine::advance::read::{Read, Unwinding, read};
use crate::engine::advance::unwinding::unwind;
use crate::engine::code::run_code;
use crate::engine::inner::{Engine, Inner};
use crate::journal::event::Event;
use crate::journal::history::History;
use crate::policy::replay::Mode;
use crate::run::changes::ValueChanges;
use crate::run::claim::{Origin, Run};
use crate::run::end::RunEnd;
use crate::run::fault::{CommandSummary, Divergence, Fault};
use crate::run::program::{Completion, RegisteredWorkflow};
use crate::store::error::StoreError;
use crate::store::open_waits::OpenWaits;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::RunId;
use crate::vocabulary::net::in_net;
use crate::vocabulary::payload::Payload;

/// Result of [`Engine::verify`]: a replay that fits its history. One that does not is a [`VerifyError`].
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// Number of recorded results in history.
    pub recorded: u64,
    /// Number of recorded results that the code asked for.
    pub matched: u64,
    /// How far the run has come.
    pub fit: Fit,
}

/// How far a run has come whose code and history fit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fit {
    /// The run has ended, and the code leads to the recorded end.
    ToItsEnd,
    /// The run waits or is being advanced, and the code fits all that is recorded so far.
    SoFar {
        /// Where it stands: the first command without a recorded result. `None` where only the run's end is missing.
        at: Option<Box<CommandSummary>>,
    },
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { recorded, matched, fit } = self;
        write!(f, "{matched} of {recorded} recorded results match, ")?;
        match fit {
            Fit::ToItsEnd => f.write_str("to the run's end"),
            Fit::SoFar { at: Some(at) } => write!(f, "so far; the run stands at {at}"),
            Fit::SoFar { at: None } => f.write_str("so far; only the run's end is not recorded"),
        }
    }
}

/// Why a run could not be verified.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Code and history differ, or the code needs a result that history does not hold.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The workflow panicked where it did not before.
    #[error("run `{run}`: the workflow panicked during verification: {message}")]
    Panicked {
        /// The run that was replayed.
        run: RunId,
        /// The panic message.
        message: String,
    },
}

impl VerifyError {
    /// Both places where code and history differ, if that is why.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) {
    /// if let Err(error) = engine.verify(run).await
    ///     && let Some(differs) = error.divergence()
    /// {
    ///     println!("history: {:?}, code: {:?}", differs.recorded, differs.requested);
    /// }
    /// # }
    /// ```
    pub fn divergence(&self) -> Option<&Divergence> {
        match self {
            Self::Fault(Fault::Diverged(divergence)) => Some(divergence),
            _ => None,
        }
    }
}

impl Engine {
    /// Replays a run in verify mode: no model, tool, HTTP, clock or random call is made, and nothing is written. Use it to
    /// check that changed code still fits the runs that are open: a run that waits, or is being advanced, is compared as
    /// far as it has come.
    ///
    /// ```
    /// # use aether_core::engine::{Engine, Fit};
    /// # use aether_core::id::RunId;
    /// # async fn example(engine: &Engine, run: &RunId) -> Result<(), Box<dyn std::error::Error>> {
    /// let verified = engine.verify(run).await?;
    /// assert_eq!(verified.matched, verified.recorded);
    /// if let Fit::SoFar { at: Some(at) } = &verified.fit {
    ///     println!("fits so far; the run stands at {at}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`VerifyError`] naming the first command on which code and history differ, or the first unrecorded effect of a run
    /// that has ended.
    pub async fn verify(&self, run: &RunId) -> Result<Verified, VerifyError> {
        let recorded = recorded(&self.inner, run).await?;
        verified(&self.inner, run, recorded).await
    }
}

/// As [`Engine::verify`], of a journal that was read.
pub(crate) async fn verified(
    inner: &Arc<Inner>,
    run: &RunId,
    recorded: Read,
) -> Result<Verified, VerifyError> {
    judged(run, replay(inner, run, recorded).await?).await
}

/// What a replay says of code and history.
pub(crate) async fn judged(run: &RunId, replayed: Replayed) -> Result<Verified, VerifyError> {
    let Replayed { run: replayed, workflow, drive_end, unwinding, end } = replayed;
    // The event with which the workflow ended; where steps were undone, the run's own end came later.
    let workflow_end = unwinding.as_ref().map(|(workflow_end, _)| workflow_end).or(end.as_ref());
    let cut_off = workflow_end.is_some_and(cuts_off);
    let mut at = None;
    let produced = match drive_end {
        DriveEnd::Done(completion) => Some(terminal(&replayed, completion)),
        // All of history was delivered, and the run continues from there.
        DriveEnd::Fault(Fault::Unrecorded { requested, .. }) if workflow_end.is_none() => {
            at = Some(requested);
            None
        }
        // History ends at a cancellation or a termination; the code continues beyond it.
        DriveEnd::Fault(Fault::Unrecorded { .. }) if cut_off => None,
        DriveEnd::Fault(fault) => return Err(fault.into()),
        DriveEnd::Panicked(message) => match workflow_end.and_then(RunEnd::of) {
            Some(RunEnd::Failed { message: known, .. }) if known.contains(&message) => None,
            _ => return Err(VerifyError::Panicked { run: run.clone(), message }),
        },
        DriveEnd::Cancelled { .. }
        | DriveEnd::Expired(_)
        | DriveEnd::Terminated { .. }
        | DriveEnd::FailedPermanently(_)
        | DriveEnd::Renewed(_)
        | DriveEnd::Suspended { .. } => None,
    };
    if let Some(fault) = replayed.leftover() {
        return Err(fault.into());
    }
    if let (Some(produced), Some(workflow_end)) = (produced, workflow_end)
        && !cut_off
        && !is_same_end(&workflow, &produced, without_uncompensated(workflow_end.clone()))
    {
        return Err(other_result(run, replayed.is_of_same_code()).into());
    }
    let workflow = replayed.counts();
    let undone = match unwinding {
        Some((_, unwound)) => {
            replayed.hand_over_undos(&unwound);
            let (undone, stands) = verify_unwinding(&unwound, end.as_ref()).await?;
            at = stands;
            undone
        }
        None => (0, 0),
    };
    let fit = if end.is_some() { Fit::ToItsEnd } else { Fit::SoFar { at } };
    Ok(Verified { recorded: workflow.0 + undone.0, matched: workflow.1 + undone.1, fit })
}

/// Replays the undoing of a run's steps; returns the numbers of recorded and of matched answers, and where the run stands
/// that has not ended.
async fn verify_unwinding(
    run: &Arc<Run>,
    end: Option<&Event>,
) -> Result<((u64, u64), Option<Box<CommandSummary>>), VerifyError> {
    let mut at = None;
    match drive(run, Box::pin(unwind(Arc::clone(run)))).await {
        // History ends at a termination, in the middle of the compensations.
        DriveEnd::Fault(Fault::Unrecorded { .. }) if matches!(end, Some(Event::RunTerminated(_))) => {}
        DriveEnd::Fault(Fault::Unrecorded { requested, .. }) if end.is_none() => at = Some(requested),
        DriveEnd::Fault(fault) => return Err(fault.into()),
        DriveEnd::Panicked(message) => return Err(VerifyError::Panicked { run: run.id.clone(), message }),
        _ => {}
    }
    match run.leftover() {
        Some(fault) => Err(fault.into()),
        None => Ok((run.counts(), at)),
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

/// Whether the code leads to the recorded end; a result or a failure may be recorded in an older encoding.
fn is_same_end(workflow: &RegisteredWorkflow, produced: &Event, recorded: Event) -> bool {
    match (produced, recorded) {
        (Event::RunCompleted(produced), Event::RunCompleted(mut recorded)) => {
            if produced.result != recorded.result
                && let Ok(Ok(normal)) = in_net(|| workflow.normal_output(&recorded.result))
            {
                recorded.result = normal;
            }
            *produced == recorded
        }
        (Event::RunFailed(produced), Event::RunFailed(mut recorded)) => {
            if produced.error != recorded.error
                && let Ok(failure) = recorded.error.decode::<Failure>()
                && let Ok(normal) = Payload::encode(&failure)
            {
                recorded.error = normal;
            }
            *produced == recorded
        }
        (produced, recorded) => *produced == recorded,
    }
}

/// Whether a run was ended from outside of its workflow: cancelled, terminated, or failed permanently because of a
/// resource.
fn cuts_off(end: &Event) -> bool {
    match end {
        Event::RunCancelled(_) | Event::RunTerminated(_) => true,
        Event::RunFailed(e) => {
            e.error.decode::<Failure>().is_ok_and(|failure| failure.unconfirmed().is_some())
        }
        _ => false,
    }
}

/// A run that was replayed without executing anything, up to the end of its workflow.
pub(crate) struct Replayed {
    pub(super) run: Arc<Run>,
    pub(super) workflow: RegisteredWorkflow,
    /// How driving its workflow ended.
    pub(super) drive_end: DriveEnd,
    /// The event with which its workflow ended, and the run as of then, where its steps were undone.
    pub(super) unwinding: Option<(Event, Arc<Run>)>,
    /// Its recorded end.
    pub(super) end: Option<Event>,
}

/// Reads the journal of one run.
pub(crate) async fn recorded(inner: &Inner, id: &RunId) -> Result<Read, Fault> {
    let recorded = read(&*inner.shared.store, id).await?;
    recorded.ok_or_else(|| StoreError::UnknownRun { run: id.clone() }.into())
}

/// Replays what is recorded of one run, without executing anything.
pub(crate) async fn replay(inner: &Arc<Inner>, id: &RunId, recorded: Read) -> Result<Replayed, Fault> {
    let Read { created, code, next, generation, history, obligations, spending, unwinding, end, .. } =
        recorded;
    let Some(workflow) = inner.linked(&code) else {
        return Err(lacking(inner, id, &code));
    };
    let same_code = run_code(workflow.def) == code;
    let replayed = |history| {
        let origin = Origin {
            id: id.clone(),
            def: workflow.def,
            epoch: 0,
            mode: Mode::Verify,
            seed: created.seed.clone(),
            traceparent: None,
            next,
            generation,
            history,
            obligations: obligations.clone(),
            spending: spending.clone(),
            open_waits: OpenWaits::default(),
            inbox: Vec::new(),
            effects: Vec::new(),
            streams: Vec::new(),
            adopts: None,
            parked: None,
            same_code,
            queued: false,
            read_since: None,
            birth: None,
        };
        Run::new(Arc::clone(&inner.shared), origin)
    };
    let run = replayed(history);
    if unwinding.as_ref().map(|it| &it.end).or(end.as_ref()).is_some_and(|end| !cuts_off(end)) {
        run.history(History::end);
    }
    // A run of its own: the workflow's code may have continued beyond the point where history was cut off.
    let unwinding = unwinding.map(|Unwinding { end, history }| {
        let unwound = replayed(History::default());
        unwound.begin_unwinding(history);
        (end, unwound)
    });
    let body: BoxFuture<'static, Completion> =
        in_net(|| workflow.run(Arc::clone(&run), None, &created.input))
            .map_err(|message| Fault::Panicked {
                run: id.clone(),
                message: inner.shared.redaction.text(message),
            })?
            .map_err(|error| Fault::Input { run: id.clone(), workflow: created.workflow.clone(), error })?;
    let drive_end = drive(&run, body).await;
    Ok(Replayed { run, workflow, drive_end, unwinding, end })
}

/// A divergence that names no commands: the results differ.
pub(crate) fn other_result(run: &RunId, same_code: bool) -> Fault {
    Fault::Diverged(Box::new(Divergence {
        run: run.clone(),
        recorded: None,
        requested: None,
        changes: ValueChanges::default(),
        same_code,
    }))
}
