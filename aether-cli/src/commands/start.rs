//! `start`.

use crate::args::runs;
use crate::commands::end::later;
use crate::commands::print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::steering::Deed;
use crate::session::Session;
use crate::value;

pub(crate) async fn start(session: &mut Session, args: runs::Start) -> Result<Exit, CliError> {
    let input = value::read(&args.input)?;
    let engine = session.engine().await?;
    let mut start = engine.start_named(args.workflow, input);
    if let Some(id) = args.id {
        start = start.id(id);
    }
    for (key, value) in args.label {
        start = start.label(key, value);
    }
    if let Some(queue) = args.queue {
        start = start.queue(queue);
    }
    if let Some(key) = args.key {
        start = start.key(key);
    }
    if let Some(priority) = args.priority {
        start = start.priority(priority);
    }
    let run = start.await?;
    let note = later(&engine, run.id()).await;
    let deed = Deed { action: "started".into(), run: run.id().to_string(), command: None, actor: None, note };
    print::steered(session, vec![deed])
}
