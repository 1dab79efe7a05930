//! `signal`.

use aether_core::store::Sent;
use uuid::Uuid;

use crate::args::runs;
use crate::commands::end::later;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::steering::Deed;
use crate::session::{Session, run_id};
use crate::value;

pub(crate) async fn signal(session: &mut Session, args: runs::Signal) -> Result<Exit, CliError> {
    let value = value::read(&args.value)?;
    let engine = session.engine().await?;
    let run = run_id(&args.run)?;
    // A signal has no actor; its id is recorded, and says who sent it unless it was chosen.
    let (id, actor) = match args.id {
        Some(id) => (id, None),
        None => {
            let actor = session.actor()?;
            (format!("{actor}@{}", Uuid::now_v7()), Some(actor))
        }
    };
    let action = match engine.signal(&run, &args.name, &id, &value).await? {
        Sent::Delivered => "signalled",
        Sent::Duplicate => "duplicate",
        Sent::RunEnded(status) => {
            let what = format!("run `{run}` is {status}; it receives nothing any more");
            return Err(CliError::new(Exit::Conflict, what));
        }
    };
    let note = later(&engine, &run).await?;
    let deed = Deed { action: action.into(), run: run.to_string(), command: None, actor, note };
    print::steered(session, vec![deed])
}
