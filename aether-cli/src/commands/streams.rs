//! `streams tail`.

use aether_core::payload::Payload;
use aether_core::store::StreamItem;
use aether_core::stream::StreamEvent;

use crate::args::runs::Tail;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::runs::StreamLine;
use crate::screen::{Screen, Tone};
use crate::session::{Session, existing, run_id};

/// Items that are read at a time.
const PAGE: usize = 256;

pub(crate) async fn tail(session: &mut Session, args: &Tail) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let run = run_id(&args.run)?;
    existing(&engine, &run).await?;
    let mut reader = engine.find(run.as_str()).await?.stream::<Payload>(&args.name);
    reader.check()?;
    if args.no_follow {
        let mut after = args.from.unwrap_or(1).saturating_sub(1);
        loop {
            let page = engine.store().stream(&run, &args.name, after, PAGE).await?;
            for item in &page {
                print(&session.screen, event_of(item)?)?;
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.seq,
                _ => return Ok(Exit::Done),
            }
        }
    }
    if let Some(from) = args.from {
        reader = reader.from(from);
    }
    if let Some(last) = args.last {
        reader = reader.tail(last);
    }
    while let Some(event) = reader.next().await? {
        print(&session.screen, event)?;
    }
    Ok(Exit::Done)
}

fn event_of(item: &StreamItem) -> Result<StreamEvent<Payload>, CliError> {
    StreamEvent::of(item).map_err(|error| CliError::new(Exit::Failed, format!("item {}: {error}", item.seq)))
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
