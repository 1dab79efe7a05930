//! `schedules list`, `pause`, `resume` and `trigger`.

use aether_core::engine::ScheduleError;

use crate::args::queues::{Schedules, Trigger};
use crate::commands::end::later;
use crate::commands::print;
use crate::error::{CliError, OWN_PROGRAM};
use crate::exit::Exit;
use crate::output::queues::{ScheduleDeed, ScheduleList, ScheduleReport};
use crate::output::steering::Deed;
use crate::screen::{Cell, Tone};
use crate::session::Session;
use crate::time::both;

pub(crate) async fn schedules(session: &mut Session, args: Schedules) -> Result<Exit, CliError> {
    match args {
        Schedules::List => list(session).await,
        Schedules::Pause(schedule) => pause(session, &schedule.name, true).await,
        Schedules::Resume(schedule) => pause(session, &schedule.name, false).await,
        Schedules::Trigger(args) => trigger(session, args).await,
    }
}

async fn list(session: &mut Session) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let found = engine.schedules().await.map_err(refused)?;
    let schedules: Vec<_> = found.into_iter().map(ScheduleReport::of).collect();
    if session.screen.is_json {
        session.screen.json(&ScheduleList { schedules })?;
        return Ok(Exit::Done);
    }
    if schedules.is_empty() {
        session.screen.note("there are no schedules");
        return Ok(Exit::Done);
    }
    let header = &["SCHEDULE", "WORKFLOW", "CRON", "NEXT", "NEWEST TICK"];
    session.screen.table(header, schedules.iter().map(row).collect())?;
    Ok(Exit::Done)
}

fn row(schedule: &ScheduleReport) -> Vec<Cell> {
    let next = if schedule.paused { "paused".to_owned() } else { both(schedule.next) };
    let newest = schedule.recent.last().map(|tick| format!("{:.0}: {}", tick.at, tick.outcome));
    vec![
        Cell::toned(&schedule.name, Tone::Strong),
        Cell::from(&schedule.workflow),
        Cell::from(format!("{} {}", schedule.cron, schedule.zone)),
        Cell::toned(next, if schedule.paused { Tone::Warn } else { Tone::Plain }),
        Cell::from(newest.unwrap_or_default()),
    ]
}

async fn pause(session: &mut Session, name: &str, is_pause: bool) -> Result<Exit, CliError> {
    let engine = session.engine().await?;
    let schedule = engine.find_schedule(name).await.map_err(refused)?;
    if is_pause { schedule.pause().await } else { schedule.resume().await }.map_err(refused)?;
    let schedule = ScheduleReport::of(schedule.record().await.map_err(refused)?);
    let action = if is_pause { "paused" } else { "resumed" };
    if session.screen.is_json {
        session.screen.json(&ScheduleDeed { action: action.into(), schedule })?;
        return Ok(Exit::Done);
    }
    let next = if is_pause { String::new() } else { format!(", the next tick is {}", both(schedule.next)) };
    session.screen.line(&format!("{name}: {action}{next}"))?;
    Ok(Exit::Done)
}

async fn trigger(session: &mut Session, args: Trigger) -> Result<Exit, CliError> {
    let engine = session.engine().await?;
    let schedule = engine.find_schedule(&args.schedule.name).await.map_err(refused)?;
    let run = match args.at {
        Some(tick) => schedule.trigger_for(tick).await,
        None => schedule.trigger().await,
    };
    let run = run.map_err(refused)?;
    let note = later(&engine, run.id()).await;
    let deed =
        Deed { action: "triggered".into(), run: run.id().to_string(), command: None, actor: None, note };
    print::steered(session, vec![deed])
}

fn refused(error: ScheduleError) -> CliError {
    let text = error.to_string();
    match error {
        ScheduleError::Store(error) => error.into(),
        ScheduleError::Start(error) => error.into(),
        ScheduleError::Unknown { name } => {
            CliError::new(Exit::NotFound, format!("there is no schedule `{name}`")).with_help(
                "`schedules list` lists those that there are; a program declares them when it starts",
            )
        }
        ScheduleError::NotLinked { .. } => CliError::new(Exit::NotFound, text).with_help(OWN_PROGRAM),
        _ => CliError::new(Exit::Failed, text),
    }
}
