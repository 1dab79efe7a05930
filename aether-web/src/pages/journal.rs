//! The journal of a run: its events, one line each, a page at a time; to auditors with all that they hold.

use aether_core::id::{Position, RunId};
use aether_core::journal::event::Event;
use aether_core::store::{RunRecord, Store, StoreError, read};
use askama::Template;
use axum::extract::Path;
use axum::response::Response;

use crate::pages::runs::run_path;
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::text::json::Shown;
use crate::text::time::{When, count};

/// Events of a page, and of the newest ones on the page of a run.
const PAGE: u64 = 200;
const NEWEST: u64 = 60;

/// One event.
#[derive(Clone, Debug, Template)]
#[template(path = "entry.html")]
pub(crate) struct Entry {
    pub(crate) position: Position,
    kind: String,
    command: String,
    at: When,
    clock: String,
    all: Option<Shown>,
}

impl Entry {
    pub(crate) fn of(ask: &Ask, position: Position, at: jiff::Timestamp, event: &Event, whole: bool) -> Self {
        let all = (whole && ask.visit.audits()).then(|| serde_json::to_string(event).ok()).flatten();
        Self {
            position,
            kind: event.kind(),
            command: event.command().map(ToString::to_string).unwrap_or_default(),
            at: ask.when(at),
            clock: at.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(),
            all: all.map(|all| Shown::json(&all)),
        }
    }
}

/// Events from `from` on, at most about `most`: whole frames are read.
pub(crate) async fn entries(
    ask: &Ask,
    run: &RunId,
    from: Position,
    most: u64,
    whole: bool,
) -> Result<Vec<Entry>, StoreError> {
    let store: &dyn Store = &**ask.shared.engine().store();
    let mut found = Vec::new();
    for frame in store.load_page(run, from, most).await? {
        let events = read::events(store, run, std::slice::from_ref(&frame)).await?;
        for (position, event) in (frame.position..).zip(&events) {
            if position >= from {
                found.push(Entry::of(ask, position, frame.at, event, whole));
            }
        }
    }
    Ok(found)
}

/// The newest events.
pub(crate) async fn newest(ask: &Ask, record: &RunRecord) -> Result<Vec<Entry>, Response> {
    let from = record.next.saturating_sub(NEWEST);
    let mut found = entries(ask, &record.id, from, NEWEST, false).await.map_err(|error| ask.store(&error))?;
    // What was appended since the record was read comes with the live events.
    found.retain(|entry| entry.position < record.next);
    Ok(found)
}

#[derive(Debug, Template)]
#[template(path = "journal.html")]
struct Page {
    shell: Shell,
    id: String,
    href: String,
    entries: Vec<Entry>,
    total: String,
    earlier: Option<Position>,
    later: Option<Position>,
}

pub(crate) async fn page(ask: Ask, Path(id): Path<String>) -> Answer {
    let run = ask.run(&id)?;
    let record = ask.shared.engine().store().run(&run).await.map_err(|error| ask.store(&error))?;
    let Some(record) = record else { return Err(ask.store(&StoreError::UnknownRun { run })) };
    let from = ask.get("from").and_then(|from| from.parse().ok()).unwrap_or(0);
    let entries = entries(&ask, &run, from, PAGE, true).await.map_err(|error| ask.store(&error))?;
    let next = entries.last().map(|last| last.position + 1).filter(|next| *next < record.next);
    html(&Page {
        shell: ask.shell("runs", format!("Journal of {id}")).await?,
        href: run_path(&ask.visit.base, &id),
        id,
        entries,
        total: count(record.next),
        earlier: (from > 0).then(|| from.saturating_sub(PAGE)),
        later: next,
    })
}
