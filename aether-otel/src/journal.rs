//! Reading the journal of a run into a fold.
//!
//! Promise: a frame is taken in whole or not at all, so that an error leaves a fold from which it can go on. What a fork has
//! copied from its origin is taken in and shown to nobody.

use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::store::{Store, StoreError, read};
use aether_core::trace::{SpanName, Trace, TraceContext};
use jiff::Timestamp;

use crate::fold::{Fold, Related};
use crate::settings::Settings;
use crate::spans::{Ended, take};

/// Events that are read from the store at once.
const PAGE: u64 = 500;

/// Who is shown what is read.
pub(crate) trait Sink: Send {
    /// An event, before the fold takes it in.
    fn event(&mut self, fold: &Fold, at: Timestamp, event: &Event);
    /// Spans that have ended. Says whether there is room for more.
    fn ended(&mut self, fold: &Fold, ended: Vec<Ended>) -> bool;
}

/// Reads a journal on, to its end or until the sink has no room. Says whether it was to its end.
pub(crate) async fn read_on(
    store: &dyn Store,
    run: &RunId,
    fold: &mut Fold,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<bool, StoreError> {
    loop {
        let read = read_page(store, run, fold, settings, sink).await;
        // Also behind an error: what was taken in was shown.
        let ended = take(fold, settings);
        let has_room = sink.ended(fold, ended);
        match read? {
            Page::End => return Ok(true),
            Page::Whole if has_room => {}
            Page::Whole | Page::Full => return Ok(false),
        }
    }
}

/// What came of a page of a journal.
enum Page {
    /// There is none.
    End,
    /// It was read.
    Whole,
    /// There was no room for all of it.
    Full,
}

async fn read_page(
    store: &dyn Store,
    run: &RunId,
    fold: &mut Fold,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<Page, StoreError> {
    let frames = store.load_page(run, fold.next(), PAGE).await?;
    let page = if frames.is_empty() { Page::End } else { Page::Whole };
    for frame in frames {
        let events = read::events(store, run, std::slice::from_ref(&frame)).await?;
        let related = Relations::of(store, &events).await?;
        fold.skip_to(frame.position);
        let is_copied = frame.position == 0 && begins_fork(&events);
        for event in events {
            if fold.forgets(&event) {
                fold.end_generation(frame.at);
                let ended = take(fold, settings);
                sink.ended(fold, ended);
            }
            if !is_copied || matches!(event, Event::RunCreated(_)) {
                sink.event(fold, frame.at, &event);
            }
            fold.apply(frame.at, event);
        }
        related.link(fold);
        if is_copied {
            fold.leave_to_origin();
        }
        if fold.is_full() {
            let ended = take(fold, settings);
            if !sink.ended(fold, ended) {
                return Ok(Page::Full);
            }
        }
    }
    Ok(page)
}

/// Whether the first frame of a journal is that of a fork, with what it has copied.
fn begins_fork(events: &[Event]) -> bool {
    matches!(events.first(), Some(Event::RunCreated(created)) if created.forked_from.is_some())
}

/// The spans of runs that the beginning of a run names.
#[derive(Debug, Default)]
struct Relations {
    parent: Option<TraceContext>,
    origin: Option<TraceContext>,
}

impl Relations {
    async fn of(store: &dyn Store, events: &[Event]) -> Result<Self, StoreError> {
        let created = events.iter().find_map(|event| match event {
            Event::RunCreated(created) => Some(created),
            _ => None,
        });
        let Some(created) = created else { return Ok(Self::default()) };
        let origin = created.forked_from.as_ref().map(|from| &from.run);
        Ok(Self {
            parent: found(span_of(store, created.parent.as_ref()).await)?,
            origin: found(span_of(store, origin).await)?,
        })
    }

    fn link(self, fold: &mut Fold) {
        let link = |related: &mut Option<Related>, span: Option<TraceContext>| {
            if let Some(related) = related {
                related.span = related.span.or(span);
            }
        };
        link(&mut fold.parent, self.parent);
        link(&mut fold.origin, self.origin);
    }
}

/// What is known of another run. One that cannot be read, now or ever, must not hold this one up: its key was destroyed, it
/// is damaged, or it was deleted meanwhile.
fn found(span: Result<Option<TraceContext>, StoreError>) -> Result<Option<TraceContext>, StoreError> {
    match span {
        Err(StoreError::Codec { .. } | StoreError::Corrupt { .. } | StoreError::UnknownRun { .. }) => {
            Ok(None)
        }
        span => span,
    }
}

/// The span of a run, if the run is still there.
async fn span_of(store: &dyn Store, run: Option<&RunId>) -> Result<Option<TraceContext>, StoreError> {
    let Some(run) = run else { return Ok(None) };
    let Some(record) = store.run(run).await? else { return Ok(None) };
    let Some(frame) = store.load_page(run, 0, 1).await?.into_iter().next() else { return Ok(None) };
    let events = read::events(store, run, std::slice::from_ref(&frame)).await?;
    Ok(events.into_iter().find_map(|event| match event {
        Event::RunCreated(e) => {
            Some(Trace::of(record.traceparent.as_deref(), &e.seed).context(run, SpanName::Run))
        }
        _ => None,
    }))
}
