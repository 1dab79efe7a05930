//! `streams tail`.

use aether_core::payload::Payload;
use aether_core::stream::StreamEvent;

use crate::args::runs::Tail;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::runs::StreamLine;
use crate::screen::{Screen, Tone};
use crate::session::{Session, existing, run_id};

pub(crate) async fn tail(session: &mut Session, args: &Tail) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let run = run_id(&args.run)?;
    existing(&engine, &run).await?;
    let mut reader = engine.find(run.as_str()).await?.stream::<Payload>(&args.name);
    reader.check()?;
    if let Some(from) = args.from {
        reader = reader.from(from);
    }
    if let Some(last) = args.last {
        reader = reader.tail(last);
    }
    loop {
        let event = if args.no_follow { reader.next_present().await? } else { reader.next().await? };
        match event {
            Some(event) => print(&session.screen, event)?,
            None => return Ok(Exit::Done),
        }
    }
}

fn print(screen: &Screen, event: StreamEvent<Payload>) -> Result<(), CliError> {
    if screen.is_json {
        return screen.json_line(&line_of(event));
    }
    match event {
        StreamEvent::Chunk { items, .. } => items.iter().try_for_each(|item| match item.decode::<String>() {
            Ok(text) => screen.line(&text),
            Err(_) => screen.line(item.as_str()),
        }),
        StreamEvent::Restarted { command, from, .. } => screen.toned(
            &format!("-- {command} began again: what it sent from {from} on does not count"),
            Tone::Warn,
        ),
        StreamEvent::Committed { command, .. } => screen.toned(&format!("-- {command} is done"), Tone::Faint),
        StreamEvent::Closed { status } => screen.toned(&format!("-- the run is {status}"), Tone::Faint),
        _ => Ok(()),
    }
}

fn line_of(event: StreamEvent<Payload>) -> Option<StreamLine> {
    Some(match event {
        StreamEvent::Chunk { seq, first, command, items } => {
            StreamLine::Chunk { seq, first, command: command.to_string(), items }
        }
        StreamEvent::Restarted { seq, command, from } => {
            StreamLine::Restarted { seq, command: command.to_string(), from }
        }
        StreamEvent::Committed { seq, command, .. } => {
            StreamLine::Committed { seq, command: command.to_string() }
        }
        StreamEvent::Closed { status } => StreamLine::Closed { status: status.as_str().into() },
        _ => return None,
    })
}
