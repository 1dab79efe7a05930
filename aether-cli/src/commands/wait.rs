//! `runs wait`.

use std::time::Duration;

use aether_core::contract::Status;
use aether_core::engine::Engine;
use aether_core::id::RunId;
use aether_core::run::RunEnd;
use aether_core::store::RunRecord;
use aether_core::store::read::events;
use tokio::time::{Instant, sleep};

use crate::args::runs;
use crate::commands::print;
use crate::error::{CliError, found};
use crate::exit::Exit;
use crate::output::runs::{EndReport, Ends};
use crate::session::{Session, existing, run_id};

/// How often the store is asked.
const LOOK: Duration = Duration::from_millis(100);
/// How often a person is told what a run waits for, in looks.
const TELL: usize = 10;

pub(crate) async fn wait(session: &mut Session, args: &runs::Wait) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let ids = args.runs.runs.iter().map(|run| run_id(run)).collect::<Result<Vec<_>, _>>()?;
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    // Nothing turns where there is nothing to wait for.
    let mut progress = None;
    let mut looks = 0_usize;
    let records = loop {
        let mut records = Vec::with_capacity(ids.len());
        for id in &ids {
            records.push(existing(&engine, id).await?);
        }
        let open = records.iter().find(|run| !run.status.is_terminal());
        let Some(open) = open.filter(|_| deadline.is_none_or(|deadline| Instant::now() < deadline)) else {
            break records;
        };
        if looks.is_multiple_of(TELL) {
            let ended = records.iter().filter(|run| run.status.is_terminal()).count();
            let why = engine.why(&open.id).await?;
            let progress = progress.get_or_insert_with(|| session.screen.progress());
            progress.say(&format!("{ended} of {} ended; {}: {why}", ids.len(), open.id));
        }
        looks += 1;
        sleep(LOOK).await;
    };
    drop(progress);
    let timed_out = records.iter().any(|run| !run.status.is_terminal());
    let mut runs = Vec::with_capacity(records.len());
    for record in &records {
        runs.push(report(&engine, record).await?);
    }
    let exit = if timed_out {
        Exit::TimedOut
    } else if records.iter().all(|run| run.status == Status::Completed) {
        Exit::Done
    } else {
        Exit::NotCompleted
    };
    found(exit, print_ends(session, Ends { runs, timed_out }))
}

fn print_ends(session: &Session, ends: Ends) -> Result<(), CliError> {
    if session.screen.is_json {
        return session.screen.json(&ends);
    }
    for run in &ends.runs {
        session.screen.toned(&format!("{}: {}", run.run, run.status), print::tone_of(&run.status))?;
        print::value(&session.screen, "result", run.result.as_ref())?;
        run.message.as_ref().map_or(Ok(()), |message| session.screen.field("why", message))?;
    }
    Ok(())
}

async fn report(engine: &Engine, record: &RunRecord) -> Result<EndReport, CliError> {
    let (run, status) = (record.id.to_string(), record.status.as_str().to_owned());
    let (result, message) = match end_of(engine, &record.id).await? {
        Some(RunEnd::Completed(value)) => (Some(value), None),
        Some(RunEnd::Failed { message, .. }) => (None, Some(message)),
        Some(RunEnd::Cancelled { reason, actor, .. }) => {
            (None, Some(format!("cancelled by {actor}: {reason}")))
        }
        Some(RunEnd::Terminated { reason, actor }) => {
            (None, Some(format!("terminated by {actor}: {reason}")))
        }
        Some(RunEnd::Expired { at }) => (None, Some(format!("it had not begun by {at}"))),
        _ => (None, Some(engine.why(&record.id).await?.to_string())),
    };
    Ok(EndReport { run, status, result, message })
}

/// How a run ended; `None` while it is open.
async fn end_of(engine: &Engine, run: &RunId) -> Result<Option<RunEnd>, CliError> {
    let store = &**engine.store();
    let Some(frame) = store.last_frame(run).await? else { return Ok(None) };
    let events = events(store, run, std::slice::from_ref(&frame)).await?;
    Ok(events.iter().rev().find_map(RunEnd::of))
}
