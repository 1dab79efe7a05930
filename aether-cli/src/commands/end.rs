//! `runs cancel` and `runs terminate`.

use aether_core::contract::Status;
use aether_core::engine::{Engine, Hold};
use aether_core::id::RunId;
use aether_core::inbox::SendError;
use aether_core::store::{Sent, StoreError};

use crate::args::runs::End;
use crate::commands::filter::targets;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::steering::Deed;
use crate::session::Session;

/// The statuses of runs that have not ended.
const OPEN: [Status; 3] = [Status::Pending, Status::Running, Status::Waiting];

pub(crate) async fn end(session: &mut Session, args: End, at_once: bool) -> Result<Exit, CliError> {
    let (engine, actor) = (session.engine().await?, session.actor()?);
    let verb = if at_once { "terminate" } else { "cancel" };
    let ids = targets(session, &engine, args.which, verb, &OPEN).await?;
    let (mut done, mut refused, mut stopped) = (Vec::new(), Vec::new(), false);
    for id in &ids {
        let sent = if at_once {
            engine.terminate(id, &args.reason, &actor).await
        } else {
            engine.cancel(id, &args.reason, &actor).await
        };
        let action = match sent {
            Ok(Sent::Delivered) if at_once => "terminate_requested",
            Ok(Sent::Delivered) => "cancel_requested",
            Ok(Sent::Duplicate) => "duplicate",
            Ok(Sent::RunEnded(status)) => {
                let what = format!("run `{id}` is {status}; there is nothing to end");
                refused.push(CliError::new(Exit::Conflict, what));
                continue;
            }
            Err(error) => {
                // What is wrong with one run keeps no other one back; without the store none is asked.
                stopped = !is_of_one_run(&error);
                refused.push(CliError::from(error));
                if stopped {
                    break;
                }
                continue;
            }
        };
        let note = later(&engine, id).await;
        done.push(Deed {
            action: action.into(),
            run: id.to_string(),
            command: None,
            actor: Some(actor.clone()),
            note,
        });
    }
    match CliError::all(refused) {
        Some(refused) if done.is_empty() => Err(refused),
        Some(refused) => {
            print::steered(session, done)?;
            Err(if stopped { refused } else { refused.because(Exit::Conflict) })
        }
        None => print::steered(session, done),
    }
}

/// Whether another run may well be asked after this error.
fn is_of_one_run(error: &SendError) -> bool {
    !matches!(
        error,
        SendError::Store(error)
            if !matches!(error, StoreError::UnknownRun { .. } | StoreError::Codec { .. } | StoreError::Corrupt { .. })
    )
}

/// Why what was asked takes effect later, where nobody is there to do it. What was asked is done: that nobody can say what
/// comes of it is no failure.
pub(crate) async fn later(engine: &Engine, run: &RunId) -> Option<String> {
    match engine.why(run).await.ok()? {
        Hold::NoWorker { .. } => {
            Some("no program advances the runs of this store now: it takes effect when one starts".into())
        }
        Hold::NoCode { .. } | Hold::Parked { .. } => {
            Some("no program that is there has code for this run: it takes effect when one starts".into())
        }
        _ => None,
    }
}
