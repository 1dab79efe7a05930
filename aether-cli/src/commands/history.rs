//! `runs history`.

use std::collections::BTreeMap;

use aether_core::engine::Engine;
use aether_core::id::RunId;
use aether_core::journal::StoredFrame;
use aether_core::journal::event::Event;
use aether_core::payload::Payload;
use aether_core::store::read::events;

use crate::args::runs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::runs::{EventReport, History};
use crate::screen::{Cell, Tone};
use crate::session::{Session, existing, run_id};

/// Events that are read at a time.
const PAGE: u64 = 500;

pub(crate) async fn history(session: &mut Session, args: &runs::History) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let id = run_id(&args.run)?;
    let end = existing(&engine, &id).await?.next;
    let (mut found, mut from) = (Vec::new(), args.from);
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    while from < end && found.len() < most {
        let page = page(&engine, &id, from).await?;
        let Some(last) = page.last() else { break };
        from = last.position + 1;
        let wanted = |event: &EventReport| args.kind.is_empty() || args.kind.contains(&event.kind);
        found.extend(page.into_iter().filter(wanted));
    }
    if found.len() > most {
        found.truncate(most);
        from = found.last().map_or(from, |last| last.position + 1);
    }
    let next = (from < end).then_some(from);
    if session.screen.is_json {
        session.screen.json(&History { run: id.to_string(), events: found, next })?;
        return Ok(Exit::Done);
    }
    let rows = found.iter().map(|event| {
        vec![
            Cell::from(event.position.to_string()),
            Cell::toned(format!("{:.3}", event.at), Tone::Faint),
            Cell::toned(&event.kind, Tone::Strong),
            Cell::from(event.command.as_deref().unwrap_or_default()),
            Cell::from(event.event.as_str()),
        ]
    });
    session.screen.table(&["#", "AT", "KIND", "COMMAND", "EVENT"], rows.collect())?;
    if let Some(next) = next {
        session.screen.note(&format!("there are more: --from {next}"));
    }
    Ok(Exit::Done)
}

/// The events from a position on, some of them.
async fn page(engine: &Engine, id: &RunId, from: u64) -> Result<Vec<EventReport>, CliError> {
    let store = &**engine.store();
    let frames = store.load_page(id, from, PAGE).await?;
    let mut found = Vec::new();
    for frame in &frames {
        let events = events(store, id, std::slice::from_ref(frame)).await?;
        found.extend((frame.position..).zip(events).map(|(position, event)| report(frame, position, &event)));
    }
    found.retain(|event| event.position >= from);
    Ok(found)
}

fn report(frame: &StoredFrame, position: u64, event: &Event) -> EventReport {
    let kind = event.kind();
    let fields = Payload::encode(event).ok().and_then(|event| {
        let mut kinds: BTreeMap<String, Payload> = event.decode().ok()?;
        kinds.remove(&kind)
    });
    EventReport {
        position,
        at: frame.at,
        command: event.command().map(ToString::to_string),
        event: fields.unwrap_or_else(Payload::null),
        kind,
    }
}
