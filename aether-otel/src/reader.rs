//! Reads journals on into folds, counts what is new, and keeps the spans that are not exported yet.
//!
//! Promise: an event is counted once in the life of the process, and by the next process only where the progress of this one
//! was not saved. Spans of a run are exported in the order of their ends. Memory is bounded by bytes; what is beyond that is
//! read again when its turn has come, and not before.

use std::collections::BTreeMap;
use std::sync::Arc;

use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::store::{Store, StoreError};
use jiff::Timestamp;
use opentelemetry_sdk::trace::SpanData;

use crate::counting;
use crate::fold::Fold;
use crate::journal::{Sink, read_on};
use crate::progress::{Kept, Reached};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::spans::{Ended, bytes_of};

/// Limits of the memory of a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Runs whose folds are kept, so that the next look at them reads only what is new.
    pub(crate) runs: usize,
    /// Bytes of all folds and of the spans that wait, about.
    pub(crate) bytes: usize,
    /// Bytes of the spans of one run that wait. It is read on when they are exported.
    pub(crate) run_bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { runs: 4_096, bytes: 64 << 20, run_bytes: 8 << 20 }
    }
}

/// What came of reading a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// There was nothing new.
    Nothing,
    /// It was read to its end.
    Whole,
    /// There is more, for which there is no room before its spans are exported.
    More,
}

/// A run that is being read.
#[derive(Debug)]
struct Held {
    fold: Fold,
    spans: Vec<SpanData>,
    /// Bytes of the spans.
    span_bytes: usize,
    /// Bytes of all of it.
    bytes: usize,
    /// There is more to be read.
    more: bool,
    /// When it was used last, in uses of the reader.
    used: u64,
}

impl Held {
    fn has_ended(&self) -> bool {
        self.fold.view.status.is_terminal()
    }
}

/// The runs that are being read.
#[derive(Debug)]
pub(crate) struct Reader {
    store: Arc<dyn Store>,
    settings: Settings,
    registry: Arc<Registry>,
    /// Whether spans are wanted.
    exports: bool,
    room: Room,
    held: BTreeMap<RunId, Held>,
    /// The runs that are held, by when they were used last.
    by_use: BTreeMap<u64, RunId>,
    uses: u64,
    /// Bytes of all that is held.
    bytes: usize,
    /// Runs with spans that are neither exported nor in memory, and whether they have ended.
    behind: BTreeMap<RunId, bool>,
    /// Journals that were read from their beginning.
    begun: u64,
}

impl Reader {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        settings: Settings,
        registry: Arc<Registry>,
        exports: bool,
        room: Room,
    ) -> Self {
        Self {
            store,
            settings,
            registry,
            exports,
            room,
            held: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            behind: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Reads what a run has recorded since the last look.
    pub(crate) async fn read(&mut self, run: &RunId, kept: &mut Kept) -> Result<Read, StoreError> {
        let Some(reached) = kept.open.get(run).copied() else { return Ok(Read::Nothing) };
        let mut held = match self.release(run) {
            Some(held) => held,
            None => match self.store.run(run).await? {
                Some(record) => self.begin(run, record.traceparent),
                // Purged: there is nothing to be read of it any more.
                None => {
                    kept.finish(run);
                    self.behind.remove(run);
                    return Ok(Read::Whole);
                }
            },
        };
        let before = held.fold.next();
        let read = match held.span_bytes < self.room.run_bytes {
            true => self.read_into(&mut held, run, reached).await,
            false => Ok(false),
        };
        let next = held.fold.next();
        // Behind an error, too.
        held.more = !matches!(read, Ok(true));
        if let Some(reached) = kept.open.get_mut(run) {
            reached.counted = reached.counted.max(next);
            if held.spans.is_empty() {
                reached.exported = reached.exported.max(next);
            }
        }
        self.behind.remove(run);
        if matches!(read, Ok(true)) && held.spans.is_empty() && held.has_ended() {
            kept.finish(run);
        } else {
            self.hold(run.clone(), held);
            self.forget();
        }
        read.map(|whole| match whole {
            false => Read::More,
            true if next > before => Read::Whole,
            true => Read::Nothing,
        })
    }

    fn begin(&mut self, run: &RunId, traceparent: Option<String>) -> Held {
        self.begun += 1;
        let fold = Fold::new(run.clone(), traceparent);
        Held { fold, spans: Vec::new(), span_bytes: 0, bytes: 0, more: false, used: 0 }
    }

    /// Reads on, as far as there is room. Whether that was to the end.
    async fn read_into(&self, held: &mut Held, run: &RunId, reached: Reached) -> Result<bool, StoreError> {
        let mut news = News {
            registry: &self.registry,
            reached,
            exports: self.exports,
            spans: &mut held.spans,
            bytes: &mut held.span_bytes,
            room: self.room.run_bytes,
        };
        read_on(&*self.store, run, &mut held.fold, &self.settings, &mut news).await
    }

    fn hold(&mut self, run: RunId, mut held: Held) {
        self.uses += 1;
        held.used = self.uses;
        held.bytes = held.fold.weight() + held.span_bytes;
        self.bytes += held.bytes;
        self.by_use.insert(held.used, run.clone());
        self.held.insert(run, held);
    }

    fn release(&mut self, run: &RunId) -> Option<Held> {
        let held = self.held.remove(run)?;
        self.by_use.remove(&held.used);
        self.bytes = self.bytes.saturating_sub(held.bytes);
        Some(held)
    }

    /// Keeps memory within its limits: the runs that were not looked at for longest are read again when they are needed.
    fn forget(&mut self) {
        while self.held.len() > self.room.runs || (self.bytes > self.room.bytes && self.held.len() > 1) {
            let Some(oldest) = self.by_use.first_key_value().map(|(_, run)| run.clone()) else { return };
            if let Some(forgotten) = self.release(&oldest)
                && !forgotten.spans.is_empty()
            {
                self.behind.insert(oldest, forgotten.has_ended());
            }
        }
    }

    /// Whether all that a run has recorded was read when it was read last: at most its spans wait.
    pub(crate) fn knows(&self, run: &RunId) -> bool {
        self.held.get(run).is_some_and(|held| !held.more) || self.behind.contains_key(run)
    }

    /// Whether all that a run has recorded was read, and only its spans wait.
    pub(crate) fn knows_end(&self, run: &RunId) -> bool {
        let held = self.held.get(run).is_some_and(|held| held.has_ended() && !held.more);
        held || self.behind.get(run).is_some_and(|ended| *ended)
    }

    /// The runs that have spans to export in memory.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &RunId> {
        self.held.iter().filter(|(_, held)| !held.spans.is_empty()).map(|(run, _)| run)
    }

    /// The runs with spans that must be read again.
    pub(crate) fn behind(&self) -> impl Iterator<Item = &RunId> {
        self.behind.keys()
    }

    /// How many runs may be read before they are sent.
    pub(crate) fn capacity(&self) -> usize {
        (self.room.runs / 2).max(1)
    }

    /// How many runs have spans that are not exported.
    pub(crate) fn lag(&self) -> usize {
        self.ready().count() + self.behind.len()
    }

    /// The spans of a run that are to be exported.
    pub(crate) fn spans(&self, run: &RunId) -> &[SpanData] {
        self.held.get(run).map_or(&[], |held| &held.spans)
    }

    /// Bytes of the spans of a run, about.
    pub(crate) fn span_bytes(&self, run: &RunId) -> usize {
        self.held.get(run).map_or(0, |held| held.span_bytes)
    }

    /// The first `count` spans of a run are exported, and others are not.
    pub(crate) fn exported_some(&mut self, run: &RunId, count: usize) {
        let Some(mut held) = self.release(run) else { return };
        held.spans.drain(..count.min(held.spans.len()));
        held.span_bytes = held.spans.iter().map(bytes_of).sum();
        self.hold(run.clone(), held);
    }

    /// The spans of these runs are exported. Returns those of which there is more to be read.
    pub(crate) fn exported(&mut self, runs: &[RunId], kept: &mut Kept) -> Vec<RunId> {
        let mut more = Vec::new();
        for run in runs {
            let Some(mut held) = self.release(run) else { continue };
            (held.spans, held.span_bytes) = (Vec::new(), 0);
            if let Some(reached) = kept.open.get_mut(run) {
                reached.exported = reached.exported.max(held.fold.next());
            }
            if held.more {
                more.push(run.clone());
            } else if held.has_ended() {
                kept.finish(run);
                continue;
            }
            self.hold(run.clone(), held);
        }
        more
    }

    /// How many journals were read from their beginning.
    #[cfg(test)]
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Bytes of all values that are held.
    #[cfg(test)]
    pub(crate) fn kept_values(&self) -> usize {
        self.held.values().map(|held| held.fold.kept_values()).sum()
    }

    /// Bytes of all that is held, about.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Counts what is new, and gathers the spans that are to be exported.
struct News<'a> {
    registry: &'a Registry,
    reached: Reached,
    exports: bool,
    spans: &'a mut Vec<SpanData>,
    bytes: &'a mut usize,
    room: usize,
}

impl Sink for News<'_> {
    fn event(&mut self, fold: &Fold, at: Timestamp, event: &Event) {
        if fold.next() >= self.reached.counted {
            counting::event(self.registry, fold, self.reached.counted == 0, at, event);
        }
    }

    fn ended(&mut self, fold: &Fold, ended: Vec<Ended>) -> bool {
        let uncounted = ended.iter().filter(|ended| ended.position >= self.reached.counted);
        uncounted.for_each(|ended| counting::span(self.registry, ended));
        let is_wanted = self.exports && fold.trace().is_some_and(|trace| trace.is_sampled());
        let new = ended.into_iter().filter(|ended| is_wanted && ended.position >= self.reached.exported);
        for ended in new {
            *self.bytes += bytes_of(&ended.span);
            self.spans.push(ended.span);
        }
        *self.bytes < self.room
    }
}
