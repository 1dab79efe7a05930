//! A trial: whether this program's code fits an open run, found by a replay that executes nothing and writes nothing.
//!
//! Promise: a run that a trial finds to fit is not parked by the recovery that follows, unless its journal changed
//! meanwhile: both replay the same events with the same code up to the point where all of them were asked for.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};

use crate::engine::advance::drive::DriveEnd;
use crate::engine::advance::load::{is_under_other_code, lacking};
use crate::engine::advance::read::Read;
use crate::engine::code::{code_of, run_code};
use crate::engine::inner::Inner;
use crate::engine::verify::{VerifyError, judged, recorded, replay};
use crate::perform::approval::unreadable_edit;
use crate::perform::undo::cannot_undo;
use crate::run::fault::Fault;
use crate::sched::spawn;
use crate::store::records::RunRecord;
use crate::vocabulary::code::RunCode;
use crate::vocabulary::failure::panic_message;
use crate::vocabulary::id::{CodeId, Position, RunId};

/// What a trial found.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The length of the journal that was replayed.
    pub(crate) position: Position,
    /// Whether the run's workflow has run, as far as that is recorded.
    pub(crate) begun: bool,
    /// The code that recorded the run last.
    pub(crate) needs: Option<RunCode>,
    /// This program's code for it.
    pub(crate) code: Option<CodeId>,
    /// Why this program's code does not fit, if it does not.
    pub(crate) misfit: Option<Fault>,
    /// How it fails here, where it fits and its workflow panics in code that did not run before.
    pub(crate) fails: Option<String>,
}

/// How long a replay may take.
const LONGEST: Duration = Duration::from_secs(60);

/// Why a run whose steps are being undone cannot go on with that here: it goes by the recorded names of steps, and by no
/// workflow.
fn cannot_go_on(inner: &Inner, run: &RunId, recorded: &mut Read) -> Option<Fault> {
    let Read { obligations, unwinding, .. } = recorded;
    obligations.plan().iter().find_map(|undoes| {
        let pending = obligations.compensation_of(undoes).filter(|step| step.is_open())?;
        let call = unwinding.as_mut().and_then(|it| it.history.peek(&pending.place()).cloned());
        cannot_undo(&inner.shared, run, pending, call)
    })
}

/// Replays an open run without executing anything.
///
/// # Errors
/// A fault that says nothing of the code: the store failed, or the journal is damaged.
pub(crate) async fn try_run(inner: &Arc<Inner>, record: &RunRecord) -> Result<Trial, Fault> {
    let run = &record.id;
    let mut recorded = recorded(inner, run).await?;
    let (position, begun, needs) = (recorded.next, recorded.begun, Some(recorded.code.clone()));
    let linked = inner.linked(&recorded.code);
    let code = linked.as_ref().map(|linked| code_of(linked.def));
    let found = |misfit| Ok(Trial { position, begun, needs, code, misfit, fails: None });
    // Before anything else: the workflow's code is over, and need not even be linked.
    if recorded.unwinding.is_some() || recorded.end.is_some() {
        return found(cannot_go_on(inner, run, &mut recorded));
    }
    let Some(linked) = linked else {
        let lacking = lacking(inner, run, &recorded.code);
        return found(Some(lacking));
    };
    // A replay asks for them, and reads none of their values.
    let commands: Vec<_> = recorded.history.begun().cloned().collect();
    let adopts = is_under_other_code(record, &recorded, &run_code(linked.def));
    let workflow = recorded.created.workflow.clone();
    // A task of its own: trials of several runs use all threads.
    let replay = AssertUnwindSafe({
        let (inner, run) = (Arc::clone(inner), run.clone());
        async move { replayed(&inner, &run, recorded, adopts).await }
    });
    let limit = inner.shared.environment.sleep(LONGEST);
    let mut replay = spawn(replay.catch_unwind());
    let tried = match select(&mut replay, limit).await {
        Either::Left((tried, _)) => tried,
        Either::Right(((), _)) => {
            replay.abort();
            return Err(Fault::Stalled { run: run.clone(), after: LONGEST });
        }
    };
    match tried {
        Ok(Ok(Ok(None))) => {
            found(commands.iter().find_map(|record| unreadable_edit(&inner.shared, run, record)))
        }
        Ok(Ok(Ok(Some(message)))) => {
            let fails =
                format!("run `{run}`: workflow `{workflow}` panics in code that is new to it: {message}");
            found(None).map(|trial| Trial { fails: Some(fails), ..trial })
        }
        Ok(Ok(Err(VerifyError::Panicked { run, message }))) => {
            found(Some(Fault::PanickedInReplay { run, workflow, message }))
        }
        Ok(Ok(Err(VerifyError::Fault(fault)))) if fault.needs_other_code() => found(Some(fault)),
        Ok(Ok(Err(VerifyError::Fault(fault)))) => Err(fault),
        Ok(Err(panic)) => {
            let message = inner.shared.redaction.text(panic_message(&*panic));
            found(Some(Fault::Panicked { run: run.clone(), message }))
        }
        Err(_aborted) => Err(Fault::ShutDown { run: run.clone() }),
    }
}

/// What a replay comes to. The message of a panic where that ends the run, as it does in a recovery: it is no sign that
/// code and history do not fit.
async fn replayed(
    inner: &Arc<Inner>,
    run: &RunId,
    recorded: Read,
    adopts: bool,
) -> Result<Option<String>, VerifyError> {
    let replayed = replay(inner, run, recorded).await?;
    match &replayed.drive_end {
        DriveEnd::Panicked(message) if !replayed.run.panics_in_replay(adopts) => Ok(Some(message.clone())),
        _ => judged(run, replayed).await.map(|_fits| None),
    }
}
