//! The beginning of a fork: calls of its origin that are undone before its workflow runs.
//!
//! Promise: each is a recorded step of the fork; where one of them fails, the fork ends and its workflow never runs.

use std::sync::Arc;

use crate::journal::event::{ForkDecided, StepCompensated};
use crate::journal::kept::KeptCall;
use crate::journal::obligations::FORK;
use crate::perform::attempts::execute_step;
use crate::perform::call::{CallSpec, CountsIn, any_answer};
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::Fault;
use crate::run::program::Completion;
use crate::step::body::BodyError;
use crate::vocabulary::error_text::error_text;
use crate::vocabulary::failure::Failure;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::FailureClass;
use crate::vocabulary::payload::Payload;

/// Undoes `calls`, the last one first. Driven like a workflow.
pub(crate) async fn undo_first(run: Arc<Run>, calls: Vec<KeptCall>) -> Completion {
    for (number, call) in calls.into_iter().rev() {
        if let Err(error) = undo(&run, number, &call).await {
            let why = error_text(&error);
            let what = format_args!("`{}` of the origin could not be undone: {why}", call.origin);
            return Ok(Err(failure(&Failure::permanent(what))?));
        }
    }
    Ok(Ok(Payload::null()))
}

fn failure(failure: &Failure) -> Result<BodyError, crate::vocabulary::payload::PayloadError> {
    Ok(BodyError {
        error: Payload::encode(failure)?,
        message: failure.to_string(),
        class: FailureClass::Permanent,
        retry_after: None,
    })
}

async fn undo(run: &Arc<Run>, number: usize, call: &ForkDecided) -> Result<(), Payload> {
    let (undoes, step) = (call.origin.clone(), call.undo.clone().unwrap_or_default());
    let place = format!("{FORK}.{number}.undo.{}", undoes.place());
    let Some(found) = run.shared.steps.get(step.as_str()) else {
        let fault = Fault::StepNotLinked { run: run.id.clone(), command: undoes, step };
        return run.stop(fault).await;
    };
    let (def, body) = (found.def, found.body());
    let command = CommandId::new(&place, def.name);
    let args = Ok(call.undo_args.clone().unwrap_or_else(Payload::null));
    let spec = CallSpec {
        name: def.name.into(),
        path: def.path.into(),
        options: def.options,
        args,
        body,
        readable: any_answer,
        counts_in: CountsIn::Nothing,
        limit: None,
    };
    let recorded = run.with_obligations(|obligations| obligations.undone_first(&command));
    execute_step(run, command.clone(), None, spec).await?;
    if !recorded {
        run.append(vec![StepCompensated { command, undoes }.into()], AppendExtras::default());
    }
    Ok(())
}
