//! `runs cancel` and `runs terminate`.

use aether_core::contract::Status;
use aether_core::engine::{Engine, Hold};
use aether_core::id::RunId;
use aether_core::store::Sent;

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
    let (mut done, mut refused) = (Vec::new(), None);
    for id in &ids {
        let sent = if at_once {
            engine.terminate(id, &args.reason, &actor).await?
        } else {
            engine.cancel(id, &args.reason, &actor).await?
        };
        let action = match sent {
            Sent::Delivered if at_once => "terminate_requested",
            Sent::Delivered => "cancel_requested",
            Sent::Duplicate => "duplicate",
            Sent::RunEnded(status) => {
                let what = format!("run `{id}` is {status}; there is nothing to end");
                refused.get_or_insert(CliError::new(Exit::Conflict, what));
                continue;
            }
        };
        let note = later(&engine, id).await?;
        done.push(Deed {
            action: action.into(),
            run: id.to_string(),
            command: None,
            actor: Some(actor.clone()),
            note,
        });
    }
    match refused {
        Some(refused) if done.is_empty() => Err(refused),
        Some(refused) => {
            print::steered(session, done)?;
            Err(refused)
        }
        None => print::steered(session, done),
    }
}

/// Why what was asked takes effect later, where nobody is there to do it.
pub(crate) async fn later(engine: &Engine, run: &RunId) -> Result<Option<String>, CliError> {
    Ok(match engine.why(run).await? {
        Hold::NoWorker { .. } => {
            Some("no program advances the runs of this store now: it takes effect when one starts".into())
        }
        Hold::NoCode { .. } | Hold::Parked { .. } => {
            Some("no program that is there has code for this run: it takes effect when one starts".into())
        }
        _ => None,
    })
}
