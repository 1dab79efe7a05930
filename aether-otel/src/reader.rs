//! Reads journals on into folds, counts what is new, and keeps the spans that are not exported yet.
//!
//! Promise: an event is counted once in the life of the process, and by the next process only where the progress of this one
//! was not saved. Spans of a run are exported in the order of their ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aether_core::id::{Position, RunId};
use aether_core::journal::event::Event;
use aether_core::store::{Store, StoreError, read};
use aether_core::trace::{SpanName, Trace, TraceContext};
use jiff::Timestamp;
use opentelemetry_sdk::trace::SpanData;

use crate::counting;
use crate::fold::{Ended, Fold};
use crate::progress::Kept;
use crate::registry::Registry;
use crate::settings::Settings;

/// Events that are read from the store at once.
const PAGE: u64 = 2_000;
/// Runs whose folds are kept, so that the next look at them reads only what is new.
const FOLDS: usize = 512;
/// Spans that wait in memory while nothing can be exported. What is beyond that is read again later.
const WAITING: usize = 50_000;

/// A run that is being read.
#[derive(Debug)]
struct Held {
    fold: Fold,
    spans: Vec<SpanData>,
    /// When it was used last, in uses of the reader.
    used: u64,
}

/// The runs that are being read.
#[derive(Debug)]
pub(crate) struct Reader {
    store: Arc<dyn Store>,
    settings: Settings,
    registry: Arc<Registry>,
    /// Whether spans are wanted.
    exports: bool,
    held: BTreeMap<RunId, Held>,
    uses: u64,
    /// Runs with spans that are neither exported nor in memory.
    behind: BTreeSet<RunId>,
}

impl Reader {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        settings: Settings,
        registry: Arc<Registry>,
        exports: bool,
    ) -> Self {
        let (held, behind) = (BTreeMap::new(), BTreeSet::new());
        Self { store, settings, registry, exports, held, uses: 0, behind }
    }

    /// Reads what a run has recorded since the last look. Says whether there was anything.
    pub(crate) async fn read(&mut self, run: &RunId, kept: &mut Kept) -> Result<bool, StoreError> {
        let Some(reached) = kept.open.get(run).copied() else { return Ok(false) };
        self.uses += 1;
        let mut held = match self.held.remove(run) {
            Some(held) => held,
            None => match self.store.run(run).await? {
                Some(record) => {
                    let fold = Fold::new(run.clone(), record.traceparent);
                    Held { fold, spans: Vec::new(), used: 0 }
                }
                // Purged: there is nothing to be read of it any more.
                None => {
                    kept.finish(run);
                    self.behind.remove(run);
                    return Ok(true);
                }
            },
        };
        held.used = self.uses;
        let before = held.fold.next();
        let mut ended = Vec::new();
        let see = |fold: &Fold, at, event: &Event| {
            if fold.next() >= reached.counted {
                counting::event(&self.registry, fold, at, event);
            }
        };
        let read = read_on(&*self.store, run, &mut held.fold, &self.settings, &mut ended, see).await;
        let uncounted = ended.iter().filter(|ended| ended.position >= reached.counted);
        uncounted.for_each(|ended| counting::span(&self.registry, ended));
        let next = held.fold.next();
        let wanted = self.exports && held.fold.trace().is_some_and(|trace| trace.is_sampled());
        let new = ended.into_iter().filter(|ended| wanted && ended.position >= reached.exported);
        held.spans.extend(new.map(|ended| ended.span));
        if let Some(reached) = kept.open.get_mut(run) {
            reached.counted = reached.counted.max(next);
            if held.spans.is_empty() {
                reached.exported = reached.exported.max(next);
            }
        }
        let is_done = read.is_ok() && held.spans.is_empty() && held.fold.view.status.is_terminal();
        self.behind.remove(run);
        if is_done {
            kept.finish(run);
        } else {
            self.held.insert(run.clone(), held);
        }
        self.forget();
        read.map(|()| next > before)
    }

    /// Keeps memory within its limits: the runs that were not looked at for longest are read again when they are needed.
    fn forget(&mut self) {
        let waiting: usize = self.held.values().map(|held| held.spans.len()).sum();
        let over = waiting > WAITING;
        while self.held.len() > FOLDS || (over && self.held.len() > 1) {
            let oldest = self.held.iter().min_by_key(|(_, held)| held.used).map(|(run, _)| run.clone());
            let Some(oldest) = oldest else { return };
            let forgotten = self.held.remove(&oldest);
            if forgotten.is_some_and(|held| !held.spans.is_empty()) {
                self.behind.insert(oldest);
            }
            if over && self.held.values().map(|held| held.spans.len()).sum::<usize>() <= WAITING {
                return;
            }
        }
    }

    /// The runs that have spans to export.
    pub(crate) fn ready(&self) -> Vec<RunId> {
        let held = self.held.iter().filter(|(_, held)| !held.spans.is_empty());
        held.map(|(run, _)| run.clone()).collect()
    }

    /// A run with spans that must be read again.
    pub(crate) fn next_behind(&self) -> Option<RunId> {
        self.behind.first().cloned()
    }

    /// How many runs have spans that are not exported.
    pub(crate) fn lag(&self) -> usize {
        self.held.values().filter(|held| !held.spans.is_empty()).count() + self.behind.len()
    }

    /// The spans of a run that are to be exported.
    pub(crate) fn spans(&self, run: &RunId) -> &[SpanData] {
        self.held.get(run).map_or(&[], |held| &held.spans)
    }

    /// The spans of these runs are exported.
    pub(crate) fn exported(&mut self, runs: &[RunId], kept: &mut Kept) {
        for run in runs {
            let Some(held) = self.held.get_mut(run) else { continue };
            held.spans = Vec::new();
            if let Some(reached) = kept.open.get_mut(run) {
                reached.exported = reached.exported.max(held.fold.next());
            }
            if held.fold.view.status.is_terminal() {
                self.held.remove(run);
                kept.finish(run);
            }
        }
    }
}

/// Reads a journal on to its end; `see` is shown each event before the fold takes it in. A page is taken in whole or not at
/// all, so that an error leaves a fold from which it can go on.
pub(crate) async fn read_on(
    store: &dyn Store,
    run: &RunId,
    fold: &mut Fold,
    settings: &Settings,
    ended: &mut Vec<Ended>,
    mut see: impl FnMut(&Fold, Timestamp, &Event) + Send,
) -> Result<(), StoreError> {
    loop {
        let page = page(store, run, fold.next()).await?;
        if page.is_empty() {
            return Ok(());
        }
        let parent = parent_of(store, &page).await?;
        for (position, at, events) in page {
            fold.skip_to(position);
            for event in events {
                if fold.forgets(&event) {
                    ended.extend(fold.take(settings));
                }
                see(fold, at, &event);
                fold.apply(at, event);
            }
        }
        if let Some(parent) = parent {
            fold.link_to(parent);
        }
        ended.extend(fold.take(settings));
    }
}

type Page = Vec<(Position, Timestamp, Vec<Event>)>;

/// The next frames of a journal, with their large values.
async fn page(store: &dyn Store, run: &RunId, from: Position) -> Result<Page, StoreError> {
    let mut page = Page::new();
    for frame in store.load_page(run, from, PAGE).await? {
        let events = read::events(store, run, std::slice::from_ref(&frame)).await?;
        page.push((frame.position, frame.at, events));
    }
    Ok(page)
}

/// The span of the run that started the one of this page, where the page says which one that is.
async fn parent_of(store: &dyn Store, page: &Page) -> Result<Option<TraceContext>, StoreError> {
    let parent = page.iter().flat_map(|(_, _, events)| events).find_map(|event| match event {
        Event::RunCreated(e) => e.parent.clone(),
        _ => None,
    });
    match parent {
        Some(parent) => span_of(store, &parent).await,
        None => Ok(None),
    }
}

/// The span of a run, if the run is still there.
async fn span_of(store: &dyn Store, run: &RunId) -> Result<Option<TraceContext>, StoreError> {
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
