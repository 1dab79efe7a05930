//! `signal`.

use aether_core::engine::Engine;
use aether_core::id::RunId;
use aether_core::store::{Sent, WaitFilter};
use aether_core::view::pending::Waiting;
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
    // The signal is sent: that nobody can say what comes of it is no failure.
    let note = match awaits_other(&engine, &run, &args.name).await.unwrap_or_default() {
        Some(note) => Some(note),
        None => later(&engine, &run).await,
    };
    let deed = Deed { action: action.into(), run: run.to_string(), command: None, actor, note };
    print::steered(session, vec![deed])
}

/// What is to be said where the run waits for signals, and for none of this name.
async fn awaits_other(engine: &Engine, run: &RunId, name: &str) -> Result<Option<String>, CliError> {
    let waits = engine.all_pending(WaitFilter::default().kind(Waiting::Signal).run(run.clone())).await?;
    let names: Vec<String> = waits
        .waits
        .into_iter()
        .filter(|wait| wait.run == *run)
        .map(|wait| format!("`{}`", wait.name))
        .collect();
    let is_other = !names.is_empty() && !names.contains(&format!("`{name}`"));
    Ok(is_other.then(|| {
        format!("the run waits for {} now; this one is kept until it asks for `{name}`", names.join(", "))
    }))
}
