//! The check of a whole store: hash chains, events, large values, and the rows of every run.
//!
//! Promise: writes nothing; holds a page of one journal at a time; a run that moves on or is purged meanwhile is no problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::journal::event::Event;
use crate::journal::event::about::end_of;
use crate::journal::frame::{CHAIN_START, ChainHash, Chained, StoredFrame};
use crate::journal::large_values::{BlobRef, references};
use crate::store::api::Store;
use crate::store::error::StoreError;
use crate::store::filter::{Cursor, RunFilter};
use crate::store::pages::Pages;
use crate::store::recorded_calls::{RecordedCalls, raw_events};
use crate::store::records::{RunRecord, RunRow};
use crate::store::run_head::RunHead;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::Position;
use crate::vocabulary::one_line::one_line;
use crate::vocabulary::payload::hex;

/// Runs that are listed at once.
const RUNS: usize = 256;
/// Events of a journal that are read at once.
const EVENTS: u64 = 1_000;

/// How often a run that moves on is read before what was wrong each time is believed.
const TRIES: usize = 3;

/// What is wrong with one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IntegrityProblem {
    /// The run's id, as it stands in its row.
    pub run: String,
    /// Position in its journal, where the problem has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// What is wrong.
    pub reason: String,
}

/// What [`check_integrity`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IntegrityReport {
    /// Runs that were looked at.
    pub runs: u64,
    /// Frames whose hash follows from what precedes them.
    pub frames: u64,
    /// Events in them.
    pub events: u64,
    /// Large values that were read, and have the hash under which the journal names them.
    pub values: u64,
    /// Runs with events under a key that is not at hand: their chains were checked, if the store was opened without a payload
    /// codec; their events and values were not.
    pub encoded: u64,
    /// What is wrong, in the order of the runs, newest first.
    pub problems: Vec<IntegrityProblem>,
}

impl IntegrityReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn wrong(&mut self, record: &RunRecord, position: Option<Position>, reason: String) {
        self.problems.push(IntegrityProblem { run: record.id.to_string(), position, reason });
    }

    fn add(&mut self, mut other: Self) {
        self.runs += other.runs;
        self.frames += other.frames;
        self.events += other.events;
        self.values += other.values;
        self.encoded += other.encoded;
        self.problems.append(&mut other.problems);
    }
}

impl fmt::Display for IntegrityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, frames, events, values, encoded, problems } = self;
        write!(f, "{runs} runs, {frames} frames, {events} events, {values} large values")?;
        if *encoded > 0 {
            write!(f, "; {encoded} runs could not be read, for want of a key")?;
        }
        for IntegrityProblem { run, position, reason } in problems {
            let (run, reason) = (one_line(run), one_line(reason));
            match position {
                Some(position) => write!(f, "\nrun `{run}`, event {position}: {reason}")?,
                None => write!(f, "\nrun `{run}`: {reason}")?,
            }
        }
        Ok(())
    }
}

/// Reads the runs of `filter` with their whole journals, and checks of each: that every frame's hash follows from the frames
/// before it, that no frame is missing, that the events can be read, that every large value is there and has the hash under
/// which it is named, and that the run's row and its rows of the ledger agree with its journal. `progress` is called after each
/// run. What [`Store::damage`] looks at is not looked at.
///
/// It finds what changed by accident, and what was changed by somebody who did not compute the hashes again. Whoever can
/// write the store can compute them: against that, compare chain hashes with some that were noted elsewhere.
///
/// ```
/// # use aether_core::store::{RunFilter, Store, StoreError, check_integrity};
/// # async fn example(store: &dyn Store) -> Result<(), StoreError> {
/// let report = check_integrity(store, RunFilter::new(), |_| ()).await?;
/// assert!(report.is_sound(), "{report}");
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`StoreError`] when the store fails; what it says of one run alone is a problem of that run.
pub async fn check_integrity(
    store: &dyn Store,
    mut filter: RunFilter,
    mut progress: impl FnMut(&IntegrityReport),
) -> Result<IntegrityReport, StoreError> {
    let mut report = IntegrityReport::default();
    let mut left = if filter.limit == 0 { usize::MAX } else { filter.limit };
    while left > 0 {
        filter.limit = left.min(RUNS);
        let page = store.run_rows(filter.clone()).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some(last.place);
        left = left.saturating_sub(page.len());
        for row in page {
            report.add(check_row(store, row).await?);
            progress(&report);
        }
    }
    Ok(report)
}

/// Reads a run anew that moves on while it is read: a run that continues as new drops its older events. Of one that never
/// stands still, what was wrong each time is wrong.
async fn check_row(store: &dyn Store, mut row: RunRow) -> Result<IntegrityReport, StoreError> {
    let mut held: Option<Vec<IntegrityProblem>> = None;
    for tried in 1.. {
        let mut found = IntegrityReport { runs: 1, ..IntegrityReport::default() };
        let read = match &row.run {
            Ok(record) => {
                Reading { store, record, tip: row.tip, found: &mut found }.read().await?;
                Some((record.place, record.next))
            }
            Err(reason) => {
                let (run, reason) = (row.id.clone(), format!("its row cannot be read: {reason}"));
                found.problems.push(IntegrityProblem { run, position: None, reason });
                None
            }
        };
        if let Some(held) = &held {
            found.problems.retain(|problem| held.contains(problem));
        }
        if found.is_sound() || tried == TRIES {
            return Ok(found);
        }
        row = match row_at(store, row.place).await? {
            None => return Ok(IntegrityReport::default()),
            Some(now) if now.run.as_ref().ok().map(|now| (now.place, now.next)) == read => return Ok(found),
            Some(now) => now,
        };
        held = Some(found.problems);
    }
    Ok(IntegrityReport::default())
}

/// The row at this place as it is now; `None` where the run was purged.
async fn row_at(store: &dyn Store, place: Cursor) -> Result<Option<RunRow>, StoreError> {
    let behind = place.number().checked_add(1).map(Cursor::new);
    let rows = store.run_rows(RunFilter { after: behind, limit: 1, ..RunFilter::new() }).await?;
    Ok(rows.into_iter().find(|row| row.place == place))
}

/// A run that is read and compared with what is said of it beside its journal.
struct Reading<'a> {
    store: &'a dyn Store,
    record: &'a RunRecord,
    /// Chain hash of its journal, as its row has it.
    tip: Option<ChainHash>,
    found: &'a mut IntegrityReport,
}

/// What was seen of a journal.
struct Seen {
    chained: Chained,
    /// The chain hash at the position where the row says that the journal ends.
    tip: Option<ChainHash>,
    /// The status that its last event leaves the run in, where it ends it.
    end: Option<Status>,
    calls: RecordedCalls,
    values: BTreeSet<BlobRef>,
}

impl Reading<'_> {
    fn wrong(&mut self, position: Option<Position>, reason: String) {
        self.found.wrong(self.record, position, reason);
    }

    /// What the store said of this run alone.
    fn of_run(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Codec { .. } => self.found.encoded = 1,
            StoreError::Corrupt { reason, .. } => self.wrong(None, reason),
            error => return Err(error),
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let mut seen = Seen {
            chained: Chained::default(),
            tip: (self.record.next == 0).then_some(CHAIN_START),
            end: None,
            calls: RecordedCalls::of(self.record.id.clone()),
            values: BTreeSet::new(),
        };
        let (store, record) = (self.store, self.record);
        let mut pages = Pages::new(store, &record.id, 0, EVENTS);
        loop {
            let frames = match pages.next().await {
                Ok(Some(frames)) => frames,
                Ok(None) => break,
                Err(error) => return self.of_run(error),
            };
            for frame in &frames {
                match seen.chained.link(frame) {
                    Ok(events) => self.found.events += events,
                    // What follows cannot be judged.
                    Err(error) => {
                        self.wrong(Some(frame.position), error.to_string());
                        return Ok(());
                    }
                }
                self.found.frames += 1;
                self.frame(frame, &mut seen).await?;
            }
        }
        self.compare(&seen).await
    }

    async fn frame(&mut self, frame: &StoredFrame, seen: &mut Seen) -> Result<(), StoreError> {
        if seen.chained.next() == self.record.next {
            seen.tip = Some(seen.chained.tip());
        }
        let readable = frame.readable().ok();
        match raw_events(readable.unwrap_or(&frame.text)) {
            Ok(events) => {
                seen.end = events.last().map_or(seen.end, |last| end_of(&last.kind));
                // An argument that a person has edited, and that stands apart, is not fetched for its digest.
                events.iter().for_each(|event| seen.calls.apply(event, |_| None));
                seen.calls.end_frame();
            }
            Err(reason) => self.wrong(Some(frame.position), format!("unreadable events: {reason}")),
        }
        let Some(text) = readable else {
            self.found.encoded = 1;
            return Ok(());
        };
        match frame.events() {
            Ok(events) => self.head(events.first(), frame.position),
            Err(error) => self.wrong(Some(frame.position), error.to_string()),
        }
        check_values(self.store, self.record, frame.position, text, &mut seen.values, self.found).await
    }

    /// The row repeats what the first event says.
    fn head(&mut self, first: Option<&Event>, position: Position) {
        let Some(Event::RunCreated(created)) = first else { return };
        let RunRecord { workflow, version, labels, parent, .. } = self.record;
        let head = RunHead { workflow, version: *version, labels, parent: parent.as_ref() };
        for difference in head.differences(created) {
            self.wrong(Some(position), format!("of its row, {difference}"));
        }
    }

    async fn compare(&mut self, seen: &Seen) -> Result<(), StoreError> {
        let (end, record) = (seen.chained.next(), self.record);
        if end < record.next {
            let reason = format!("its row counts {} events, and its journal ends here", record.next);
            self.wrong(Some(end), reason);
        } else if end > record.next && !self.has_moved_to(end).await? {
            let reason = format!("its row counts {} events, and its journal {end}", record.next);
            self.wrong(None, reason);
        } else if seen.tip.is_none() {
            self.wrong(
                Some(record.next),
                "its row says that its journal ends here, inside of a frame".into(),
            );
        } else if self.tip.is_some() && self.tip != seen.tip {
            self.wrong(None, "its row has another chain hash than its journal".into());
        }
        // What another process appended meanwhile is in the journal and not in the row that was read before.
        if end == record.next && seen.end.map_or(record.status.is_terminal(), |end| end != record.status) {
            let says = seen.end.map_or("open", Status::as_str);
            let reason = format!("its row says `{}`, and its journal `{says}`", record.status.as_str());
            self.wrong(Some(end), reason);
        }
        let rows = match self.store.entries(&record.id).await {
            Ok(rows) => rows,
            Err(error) => return self.of_run(error),
        };
        for reason in seen.calls.compare(&rows, false) {
            self.wrong(None, reason);
        }
        Ok(())
    }

    async fn has_moved_to(&self, end: Position) -> Result<bool, StoreError> {
        let now = row_at(self.store, self.record.place).await?;
        // A run that is gone was purged.
        Ok(now.is_none_or(|now| now.run.is_ok_and(|now| now.next >= end)))
    }
}

/// Checks the large values that the frame with `text` refers to, each once for a run.
async fn check_values(
    store: &dyn Store,
    record: &RunRecord,
    position: Position,
    text: &str,
    known: &mut BTreeSet<BlobRef>,
    found: &mut IntegrityReport,
) -> Result<(), StoreError> {
    let named = match references(text) {
        Ok(named) => named,
        Err(reason) => {
            found.wrong(record, Some(position), format!("unreadable references: {reason}"));
            return Ok(());
        }
    };
    for at in named.into_iter().flat_map(BTreeMap::into_values) {
        if !known.insert(at.clone()) {
            continue;
        }
        let reason = match store.blob(&record.id, &at.sha256).await {
            Ok(Some(bytes)) if hex(&Sha256::digest(&bytes)) == at.sha256 => {
                found.values += 1;
                continue;
            }
            Ok(Some(_)) => format!("the value {} was altered", at.sha256),
            Ok(None) => format!("the value {} is missing", at.sha256),
            Err(StoreError::Codec { error, .. }) => format!("the value {}: {error}", at.sha256),
            Err(StoreError::Corrupt { reason, .. }) => reason,
            Err(error) => return Err(error),
        };
        found.wrong(record, Some(position), reason);
    }
    Ok(())
}
